// The unigram model. Door: unigram.h.
#include "headwise/tokenizer/unigram.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "headwise/error.h"
#include "headwise/tokenizer/unicode.h"

namespace headwise {
namespace {

// How much worse than the worst token an unknown character is.
constexpr double kUnknownPenalty = 10.0;

}  // namespace

std::unique_ptr<UnigramModel> UnigramModel::FromJson(const JsonCursor& json) {
  auto model = std::make_unique<UnigramModel>();
  const JsonCursor vocab = json["vocab"];
  if (!vocab.value().is_array()) vocab.Fail("an array of tokens and scores");
  double worst = std::numeric_limits<double>::infinity();
  for (const Json& entry : vocab.value()) {
    const auto id = static_cast<TokenId>(model->scores_.size());
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() ||
        !entry[1].is_number() || id > kMaxTokenId) {
      JsonCursor(entry, vocab.where() + ": " + std::to_string(id))
          .Fail("a token and its score");
    }
    const auto& token = entry[0].text();
    CheckSought(token, vocab.where() + ": " + std::to_string(id));
    model->scores_.push_back(entry[1].get<double>());
    worst = std::min(worst, model->scores_.back());
    model->vocabulary_.Add(token, id);
    model->tokens_.Add(token, id);
  }
  if (json.Find("unk_id")) {
    model->unknown_ = static_cast<TokenId>(
        json["unk_id"].Int(0, static_cast<int64_t>(model->scores_.size()) - 1));
  }
  model->unknown_score_ = worst - kUnknownPenalty;
  model->byte_fallback_ = json.Bool("byte_fallback", false);
  return model;
}

std::vector<UnigramModel::Step> UnigramModel::BestSteps(
    std::string_view piece) const {
  std::vector<Step> steps(piece.size() + 1);
  const auto offer = [&](size_t from, size_t to, double score, TokenId id) {
    const double total = steps[from].score + score;
    if (steps[to].from < 0 || total > steps[to].score) {
      steps[to] = {total, static_cast<int64_t>(from), id};
    }
  };
  for (size_t at = 0; at < piece.size();) {
    const size_t bytes = CharacterAt(piece, at).bytes;
    bool single = false;  // whether a token covers just this character
    tokens_.ForEachPrefix(piece.substr(at), [&](size_t length, TokenId id) {
      offer(at, at + length, scores_[id], id);
      single |= length == bytes;
    });
    if (!single) {
      if (unknown_ == kNoToken) {
        throw Error(ErrorCode::kInvalidArgument,
                    {"tokenize",
                     "characters of the vocabulary, which has no unknown token",
                     "\"" + std::string(piece.substr(at, bytes)) + "\"",
                     "leave the character out of the text"});
      }
      offer(at, at + bytes, unknown_score_, unknown_);
    }
    at += bytes;
  }
  return steps;
}

void UnigramModel::AddUnknown(std::string_view piece, uint32_t begin,
                              uint32_t end,
                              std::vector<PieceToken>& tokens) const {
  const std::string_view part = piece.substr(begin, end - begin);
  const TokenId known = vocabulary_.Find(part);
  if (known != kNoToken) {
    tokens.push_back({known, begin, end});
    return;
  }
  const auto is_there = [&](char byte) {
    return vocabulary_.FindByte(static_cast<unsigned char>(byte)) != kNoToken;
  };
  if (!byte_fallback_ || !std::all_of(part.begin(), part.end(), is_there)) {
    tokens.push_back({unknown_, begin, end});
    return;
  }
  for (char byte : part) {
    tokens.push_back(
        {vocabulary_.FindByte(static_cast<unsigned char>(byte)), begin, end});
  }
}

void UnigramModel::Tokenize(std::string_view piece,
                            std::vector<PieceToken>& tokens) const {
  const std::vector<Step> steps = BestSteps(piece);
  std::vector<PieceToken> path;
  for (size_t end = piece.size(); end > 0;) {
    const Step& step = steps[end];
    const auto begin = static_cast<uint32_t>(step.from);
    // Neighbouring unknown characters are one token.
    if (step.id == unknown_ && !path.empty() && path.back().id == unknown_) {
      path.back().begin = begin;
    } else {
      path.push_back({step.id, begin, static_cast<uint32_t>(end)});
    }
    end = begin;
  }
  for (auto token = path.rbegin(); token != path.rend(); ++token) {
    if (token->id == unknown_) {
      AddUnknown(piece, token->begin, token->end, tokens);
    } else {
      tokens.push_back(*token);
    }
  }
}

}  // namespace headwise
