// Counting words. Door: word_trainer.h.
#include "headwise/tokenizer/word_trainer.h"

#include <algorithm>
#include <memory>
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

std::vector<std::string> Specials(const VocabularyJob& options) {
  std::vector<std::string> specials = {"[PAD]", kUnknown, kFirst, kLast,
                                       "[MASK]"};
  specials.insert(specials.end(), options.special_tokens.begin(),
                  options.special_tokens.end());
  const std::set<std::string> different(specials.begin(), specials.end());
  if (different.size() != specials.size()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"`special_tokens`",
         "tokens that differ from each other and from [PAD], [UNK], [CLS], "
         "[SEP] and [MASK]",
         Json(options.special_tokens).dump(), "each token has one id"});
  }
  if (options.size <= static_cast<int64_t>(specials.size())) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"`size`",
         "more than the " + std::to_string(specials.size()) + " special tokens",
         std::to_string(options.size), "words need entries of their own"});
  }
  return specials;
}

class WordCutter {
 public:
  explicit WordCutter(bool lowercase)
      : normalizer_(MakeBertNormalizer(
            {.strip_accents = lowercase, .lowercase = lowercase})),
        cutter_(MakeBertPreTokenizer()) {}

  template <typename Take>
  void Cut(const std::string& text, const Take& take) const {
    PieceList words(normalizer_->Normalize(AlignedText(text, 0)));
    cutter_->Cut(words);
    for (const Range& range : words.pieces) {
      take(std::string(words.text[range]));
    }
  }

 private:
  std::unique_ptr<Normalizer> normalizer_;
  std::unique_ptr<PreTokenizer> cutter_;
};

std::set<std::string> WantedWords(const WordCutter& cutter,
                                  const VocabularyJob& options, size_t room) {
  std::set<std::string> wanted;
  for (const std::string& text : options.include) {
    cutter.Cut(text, [&](std::string word) { wanted.insert(std::move(word)); });
  }
  if (wanted.size() <= room) return wanted;
  throw Error(ErrorCode::kInvalidArgument,
              {"`include`", "at most " + std::to_string(room) + " words",
               std::to_string(wanted.size()), "a larger size has room"});
}

// The most frequent first; those that are wanted however rare.
std::vector<std::string> Choose(const WordCounts& counts,
                                const std::set<std::string>& wanted,
                                int64_t min_count, size_t most) {
  std::vector<std::pair<int64_t, std::string>> order;
  for (const auto& [word, count] : counts) {
    if (count >= min_count || wanted.contains(word)) {
      order.emplace_back(-count, word);
    }
  }
  std::sort(order.begin(), order.end());
  std::vector<std::string> words;
  size_t room = most - wanted.size();
  for (auto& [count, word] : order) {
    if (!wanted.contains(word)) {
      if (room == 0) continue;
      --room;
    }
    words.push_back(std::move(word));
  }
  return words;
}

// [CLS] A [SEP], and B [SEP] of a pair.
Json SentenceTemplate() {
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

std::string TrainWords(TextSource& texts, const VocabularyJob& options) {
  const std::vector<std::string> specials = Specials(options);
  const size_t room = static_cast<size_t>(options.size) - specials.size();
  const WordCutter cutter(!options.cased);
  const std::set<std::string> wanted = WantedWords(cutter, options, room);
  WordCounts counts;
  for (const std::string& word : wanted) counts[word] = 0;
  while (const std::optional<Document> piece = texts.Next()) {
    cutter.Cut(piece->text, [&](const std::string& word) { ++counts[word]; });
    TellRead(texts, options.on_progress);
  }
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
  for (const std::string& word :
       Choose(counts, wanted, options.min_count, room)) {
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
                 {"lowercase", !options.cased}}},
               {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
               {"post_processor", SentenceTemplate()},
               {"decoder",
                {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}}};
  file["model"] = {{"type", "WordLevel"},
                   {"vocab", std::move(vocabulary)},
                   {"unk_token", kUnknown}};
  return file.dump(1) + "\n";
}

}  // namespace headwise
