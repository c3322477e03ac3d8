// Byte-pair encoding. Door: bpe.h.
#include "headwise/tokenizer/bpe.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "headwise/error.h"
#include "headwise/tokenizer/unicode.h"

namespace headwise {
namespace {

// A pair that may be joined: the lowest rank first, then the leftmost.
struct Candidate {
  int rank;
  int left;
  TokenId joined;
  bool operator<(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : left > other.left;
  }
};

// Neighbours in the list of what is not joined away yet.
struct Link {
  int previous;
  int next;
};

}  // namespace

BpeModel::BpeModel(Vocabulary vocabulary, BpeOptions options)
    : vocabulary_(std::move(vocabulary)), options_(std::move(options)) {
  if (!options_.unknown.empty()) {
    unknown_ = vocabulary_.Find(options_.unknown);
  }
}

void BpeModel::AddMerge(int rank, std::string_view left, std::string_view right,
                        const std::string& where) {
  std::string joined(left);
  const bool prefixed = !options_.continuing_prefix.empty() &&
                        right.starts_with(options_.continuing_prefix);
  joined += right.substr(prefixed ? options_.continuing_prefix.size() : 0);
  const auto find = [&](std::string_view token) {
    const TokenId id = vocabulary_.Find(token);
    if (id == kNoToken) {
      throw Error(ErrorCode::kCorrupt, {where, "tokens of the vocabulary",
                                        "\"" + std::string(token) + "\"", ""});
    }
    return id;
  };
  // One after the other: the error names the first that is missing.
  const TokenId first = find(left);
  const TokenId second = find(right);
  merges_[Pair(first, second)] = {rank, find(joined)};
}

std::unique_ptr<BpeModel> BpeModel::FromJson(const JsonCursor& json) {
  BpeOptions options;
  options.unknown = json.String("unk_token", "");
  options.continuing_prefix = json.String("continuing_subword_prefix", "");
  options.end_suffix = json.String("end_of_word_suffix", "");
  for (const std::string* part :
       {&options.continuing_prefix, &options.end_suffix}) {
    CheckSought(*part, json.where());
  }
  options.fuse_unknown = json.Bool("fuse_unk", false);
  options.byte_fallback = json.Bool("byte_fallback", false);
  options.ignore_merges = json.Bool("ignore_merges", false);
  auto model = std::make_unique<BpeModel>(Vocabulary::FromJson(json["vocab"]),
                                          std::move(options));
  const JsonCursor merges = json["merges"];
  if (!merges.value().is_array()) merges.Fail("an array of pairs");
  int rank = 0;
  for (const Json& merge : merges.value()) {
    const std::string where = merges.where() + ": " + std::to_string(rank);
    const JsonCursor cursor(merge, where);
    if (merge.is_array() && merge.size() == 2) {
      model->AddMerge(rank++, JsonCursor(merge[0], where).String(),
                      JsonCursor(merge[1], where).String(), where);
      continue;
    }
    const std::string_view text = cursor.String();
    const size_t space = text.find(' ');
    if (space == std::string_view::npos) cursor.Fail("two tokens");
    model->AddMerge(rank++, text.substr(0, space), text.substr(space + 1),
                    where);
  }
  return model;
}

void BpeModel::AddCharacters(std::string_view piece,
                             std::vector<PieceToken>& tokens) const {
  PieceToken unknown{kNoToken, 0, 0};
  uint32_t done = 0;  // lengths add up, so that what is dropped leaves no gap
  const auto add = [&](TokenId id, uint32_t bytes) {
    tokens.push_back({id, done, done + bytes});
    done += bytes;
  };
  const auto flush = [&] {
    if (unknown.id == kNoToken) return;
    add(unknown.id, unknown.end);
    unknown = {kNoToken, 0, 0};
  };
  std::string decorated;
  for (size_t at = 0; at < piece.size();) {
    const auto bytes = static_cast<uint32_t>(CharacterAt(piece, at).bytes);
    std::string_view character = piece.substr(at, bytes);
    if ((at > 0 && !options_.continuing_prefix.empty()) ||
        (at + bytes == piece.size() && !options_.end_suffix.empty())) {
      decorated = at > 0 ? options_.continuing_prefix : "";
      decorated += character;
      if (at + bytes == piece.size()) decorated += options_.end_suffix;
      character = decorated;
    }
    at += bytes;
    const TokenId id = vocabulary_.Find(character);
    if (id != kNoToken) {
      flush();
      add(id, bytes);
      continue;
    }
    if (options_.byte_fallback &&
        std::all_of(character.begin(), character.end(), [&](char byte) {
          return vocabulary_.FindByte(static_cast<unsigned char>(byte)) !=
                 kNoToken;
        })) {
      for (char byte : character) {
        add(vocabulary_.FindByte(static_cast<unsigned char>(byte)), 1);
      }
      continue;
    }
    if (unknown_ == kNoToken) continue;
    if (!options_.fuse_unknown) flush();
    unknown.id = unknown_;
    unknown.end += bytes;
  }
  flush();
}

void BpeModel::JoinPairs(std::vector<PieceToken>& tokens, size_t first) const {
  const int count = static_cast<int>(tokens.size() - first);
  PieceToken* token = tokens.data() + first;
  std::vector<Link> links(count);
  std::priority_queue<Candidate> candidates;
  const auto consider = [&](int left) {
    const int right = left < 0 ? count : links[left].next;
    if (right >= count) return;
    const auto merge = merges_.find(Pair(token[left].id, token[right].id));
    if (merge == merges_.end()) return;
    candidates.push({merge->second.rank, left, merge->second.joined});
  };
  for (int i = 0; i < count; ++i) links[i] = {i - 1, i + 1};
  for (int i = 0; i + 1 < count; ++i) consider(i);
  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    const int left = best.left;
    const int right = links[left].next;
    if (token[left].id == kNoToken || right >= count) continue;
    // One side may have been joined with something else since.
    const auto merge = merges_.find(Pair(token[left].id, token[right].id));
    if (merge == merges_.end() || merge->second.joined != best.joined) continue;
    token[left].id = best.joined;
    token[left].end = token[right].end;
    token[right].id = kNoToken;
    links[left].next = links[right].next;
    if (links[right].next < count) links[links[right].next].previous = left;
    consider(links[left].previous);
    consider(left);
  }
  tokens.erase(std::remove_if(
                   tokens.begin() + static_cast<ptrdiff_t>(first), tokens.end(),
                   [](const PieceToken& t) { return t.id == kNoToken; }),
               tokens.end());
}

void BpeModel::Tokenize(std::string_view piece,
                        std::vector<PieceToken>& tokens) const {
  if (options_.ignore_merges) {
    const TokenId whole = vocabulary_.Find(piece);
    if (whole != kNoToken) {
      tokens.push_back({whole, 0, static_cast<uint32_t>(piece.size())});
      return;
    }
  }
  const size_t first = tokens.size();
  AddCharacters(piece, tokens);
  if (tokens.size() - first > 1) JoinPairs(tokens, first);
}

}  // namespace headwise
