// Counting words. Door: word_trainer.h.
#include "headwise/tokenizer/word_trainer.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "headwise/base/json.h"
#include "headwise/error.h"
#include "headwise/tokenizer/normalizer.h"
#include "headwise/tokenizer/pre_tokenizer.h"

namespace headwise {
namespace {

constexpr const char* kUnknown = "[UNK]";
constexpr const char* kFirst = "[CLS]";
constexpr const char* kLast = "[SEP]";
constexpr int kFirstId = 2, kLastId = 3;

using WordCounts = std::unordered_map<std::string, int64_t>;

std::vector<std::string> Specials(const WordTraining& options) {
  std::vector<std::string> specials = {"[PAD]", kUnknown, kFirst, kLast,
                                       "[MASK]"};
  specials.insert(specials.end(), options.special_tokens.begin(),
                  options.special_tokens.end());
  const std::set<std::string> different(specials.begin(), specials.end());
  if (different.size() != specials.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"special_tokens", "tokens that are not there yet",
                 Json(options.special_tokens).dump(), ""});
  }
  if (options.size <= static_cast<int64_t>(specials.size())) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"size",
         "more than the " + std::to_string(specials.size()) + " special tokens",
         std::to_string(options.size), ""});
  }
  return specials;
}

WordCounts CountWords(TextSource& texts, bool lowercase) {
  const auto normalizer =
      MakeBertNormalizer({.strip_accents = lowercase, .lowercase = lowercase});
  const auto cutter = MakeBertPreTokenizer();
  WordCounts counts;
  while (const std::optional<Document> piece = texts.Next()) {
    PieceList words(normalizer->Normalize(AlignedText(piece->text, 0)));
    cutter->Cut(words);
    for (const Range& range : words.pieces) {
      ++counts[std::string(words.text[range])];
    }
  }
  return counts;
}

// The most frequent first.
std::vector<std::string> Choose(const WordCounts& counts, int64_t min_count,
                                size_t most) {
  std::vector<std::pair<int64_t, std::string>> order;
  for (const auto& [word, count] : counts) {
    if (count >= min_count) order.emplace_back(-count, word);
  }
  std::sort(order.begin(), order.end());
  if (order.size() > most) order.resize(most);
  std::vector<std::string> words;
  for (auto& [count, word] : order) words.push_back(std::move(word));
  return words;
}

// [CLS] A [SEP], and B [SEP] of a pair.
Json Template() {
  const auto token = [](const char* id, int type) {
    return Json{{"SpecialToken", {{"id", id}, {"type_id", type}}}};
  };
  const auto text = [](const char* id, int type) {
    return Json{{"Sequence", {{"id", id}, {"type_id", type}}}};
  };
  const auto known = [](const char* id, int number) {
    return Json{{"id", id}, {"ids", {number}}, {"tokens", {id}}};
  };
  return {
      {"type", "TemplateProcessing"},
      {"single", {token(kFirst, 0), text("A", 0), token(kLast, 0)}},
      {"pair",
       {token(kFirst, 0), text("A", 0), token(kLast, 0), text("B", 1),
        token(kLast, 1)}},
      {"special_tokens",
       {{kFirst, known(kFirst, kFirstId)}, {kLast, known(kLast, kLastId)}}}};
}

}  // namespace

std::string TrainWords(TextSource& texts, const WordTraining& options) {
  const std::vector<std::string> specials = Specials(options);
  const WordCounts counts = CountWords(texts, options.lowercase);
  Json vocabulary = Json::object(), added = Json::array();
  for (const std::string& special : specials) {
    const size_t id = vocabulary.size();
    added.push_back({{"id", id},
                     {"content", special},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
    vocabulary[special] = id;
  }
  const size_t room = static_cast<size_t>(options.size) - specials.size();
  for (const std::string& word : Choose(counts, options.min_count, room)) {
    const size_t id = vocabulary.size();
    vocabulary[word] = id;
  }
  Json file = {{"version", "1.0"},
               {"truncation", nullptr},
               {"padding", nullptr},
               {"added_tokens", std::move(added)},
               {"normalizer",
                {{"type", "BertNormalizer"},
                 {"clean_text", true},
                 {"handle_chinese_chars", true},
                 {"strip_accents", nullptr},
                 {"lowercase", options.lowercase}}},
               {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
               {"post_processor", Template()},
               {"decoder",
                {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}}};
  file["model"] = {{"type", "WordLevel"},
                   {"vocab", std::move(vocabulary)},
                   {"unk_token", kUnknown}};
  return file.dump(1) + "\n";
}

}  // namespace headwise
