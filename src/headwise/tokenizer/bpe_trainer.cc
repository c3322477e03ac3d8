// Training byte-level BPE: count words once, then join the most frequent pair
// again and again, updating only the words that contain it.
// Door: bpe_trainer.h.
#include "headwise/tokenizer/bpe_trainer.h"

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <utility>

#include "headwise/base/fields.h"
#include "headwise/base/json.h"
#include "headwise/error.h"
#include "headwise/tokenizer/pattern.h"
#include "headwise/tokenizer/pre_tokenizer.h"
#include "headwise/tokenizer/tokenizer.h"
#include "headwise/tokenizer/unicode.h"

namespace headwise {
namespace {

using Pair = std::pair<TokenId, TokenId>;

// Text is cut into words by stretches of about this, so that memory holds one
// stretch's worth of matches; by no more than kMostStretchBytes where there is
// neither space nor line end to cut at.
constexpr size_t kStretchBytes = size_t{1} << 20;
constexpr size_t kMostStretchBytes = 2 * kStretchBytes;

struct Word {
  std::vector<TokenId> symbols;
  int64_t count;
};

struct PairHash {
  size_t operator()(const Pair& pair) const {
    const uint64_t both = static_cast<uint64_t>(pair.first) << 32 |
                          static_cast<uint32_t>(pair.second);
    return both * 0x9E3779B97F4A7C15 >> 16;
  }
};

// A pair, how often it was seen when it was queued, the most frequent on top.
struct Queued {
  int64_t count;
  Pair pair;
  bool operator<(const Queued& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

struct PairUse {
  int64_t count = 0;
  std::vector<size_t> words;  // that contain it, perhaps no longer
};

// The first place from `at` on where a text may be cut without cutting a word,
// or npos: between two visible characters, after a single line break or before
// a single space, which begins a word.
size_t FindCut(std::string_view text, size_t at) {
  const auto visible = [&](size_t i) {
    return static_cast<unsigned char>(text[i]) > ' ' &&
           static_cast<unsigned char>(text[i]) < 0x7F;
  };
  for (; at + 1 < text.size(); ++at) {
    const bool cut = text[at] == '\n' || text[at] == ' ';
    if (cut && visible(at - 1) && visible(at + 1)) {
      return text[at] == '\n' ? at + 1 : at;
    }
  }
  return std::string_view::npos;
}

// The last place up to `at` where a character begins.
size_t BeginOfCharacter(std::string_view text, size_t at) {
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

using WordCounts = std::unordered_map<std::string, int64_t>;

// Counts words of texts that come in pieces, stretch by stretch.
class WordCounter {
 public:
  void Add(const Document& piece) {
    if (piece.offset == 0) Finish();
    rest_ += piece.text;
    size_t begin = 0;
    while (true) {
      size_t cut = FindCut(rest_, std::max(searched_, begin + kStretchBytes));
      const size_t most = begin + kMostStretchBytes;
      if (std::min(cut, rest_.size()) > most)
        cut = BeginOfCharacter(rest_, most);
      if (cut == std::string::npos) break;
      Count(std::string_view(rest_).substr(begin, cut - begin));
      begin = cut;
    }
    rest_.erase(0, begin);
    searched_ = rest_.empty() ? 0 : rest_.size() - 1;
  }

  // The text has ended.
  void Finish() {
    Count(rest_);
    rest_.clear();
    searched_ = 0;
  }

  const WordCounts& counts() const { return counts_; }

 private:
  void Count(std::string_view stretch) {
    std::string word;
    for (const Match& match : rule_.Cut(stretch)) {
      word = stretch.substr(match.range.begin, match.range.size());
      ++counts_[word];
    }
  }

  const Pattern rule_ = Pattern::Regex(kGpt2Expression, "byte-level rule");
  std::string rest_;     // that no cut was found in
  size_t searched_ = 0;  // up to here
  WordCounts counts_;
};

class Trainer {
 public:
  explicit Trainer(const VocabularyJob& options);
  void Learn(const WordCounts& counts, const OnProgress& progress);
  Json Vocabulary() const;
  const std::vector<std::string>& merges() const { return merges_; }

 private:
  TokenId Add(const std::string& token);
  void TakeWords(const WordCounts& counts);
  void CountPair(Pair pair, int64_t count, size_t word);
  void Join(Pair pair, TokenId joined);
  void JoinInWord(Pair pair, TokenId joined, size_t index);

  VocabularyJob options_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, TokenId> ids_;
  std::vector<TokenId> bytes_;
  std::vector<std::string> merges_;
  std::vector<Word> words_;
  std::unordered_map<Pair, PairUse, PairHash> uses_;
  std::priority_queue<Queued> queue_;
};

Trainer::Trainer(const VocabularyJob& options) : options_(options) {
  CheckFields(options, "vocab");
  if (!options.bos.empty()) Add(options.bos);
  for (const std::string& token : options.special_tokens) Add(token);
  const size_t specials = tokens_.size();
  const size_t given = options.special_tokens.size() + !options.bos.empty();
  for (int byte = 0; byte < 256; ++byte) {
    bytes_.push_back(
        Add(Utf8(ByteToCharacter(static_cast<unsigned char>(byte)))));
  }
  if (specials != given || tokens_.size() != specials + 256) {
    throw Error(ErrorCode::kInvalidArgument,
                {"vocab",
                 "`bos` and `special_tokens` that differ from each other and "
                 "from bytes",
                 Json(options.bos).dump() + " and " +
                     Json(options.special_tokens).dump(),
                 "each token has one id"});
  }
  if (options.size < static_cast<int64_t>(tokens_.size())) {
    throw Error(ErrorCode::kInvalidArgument,
                {"vocab",
                 "`size` of at least " + std::to_string(given + 256) +
                     ", for bytes and special tokens",
                 std::to_string(options.size), ""});
  }
}

void Trainer::TakeWords(const WordCounts& counts) {
  // In a fixed order, so that nothing depends on how the map was filled.
  std::vector<std::pair<std::string_view, int64_t>> sorted(counts.begin(),
                                                           counts.end());
  std::sort(sorted.begin(), sorted.end());
  for (const auto& [text, count] : sorted) {
    Word word{{}, count};
    for (char byte : text) {
      word.symbols.push_back(bytes_[static_cast<unsigned char>(byte)]);
    }
    words_.push_back(std::move(word));
  }
  for (size_t i = 0; i < words_.size(); ++i) {
    const std::vector<TokenId>& symbols = words_[i].symbols;
    for (size_t j = 0; j + 1 < symbols.size(); ++j) {
      CountPair({symbols[j], symbols[j + 1]}, words_[i].count, i);
    }
  }
  for (const auto& [pair, use] : uses_) queue_.push({use.count, pair});
}

TokenId Trainer::Add(const std::string& token) {
  const auto [entry, added] =
      ids_.emplace(token, static_cast<TokenId>(tokens_.size()));
  if (added) tokens_.push_back(token);
  return entry->second;
}

void Trainer::CountPair(Pair pair, int64_t count, size_t word) {
  PairUse& use = uses_[pair];
  use.count += count;
  if (count > 0 && (use.words.empty() || use.words.back() != word)) {
    use.words.push_back(word);
  }
}

// In one walk over the word, however long it is.
void Trainer::JoinInWord(Pair pair, TokenId joined, size_t index) {
  const int64_t count = words_[index].count;
  std::vector<TokenId>& symbols = words_[index].symbols;
  std::vector<Pair> grown;
  const auto change = [&](Pair before, Pair after) {
    CountPair(before, -count, index);
    CountPair(after, count, index);
    if (grown.empty() || grown.back() != after) grown.push_back(after);
  };
  size_t kept = 0;
  for (size_t i = 0; i < symbols.size();) {
    if (i + 1 == symbols.size() || symbols[i] != pair.first ||
        symbols[i + 1] != pair.second) {
      symbols[kept++] = symbols[i++];
      continue;
    }
    if (kept > 0) {
      change({symbols[kept - 1], pair.first}, {symbols[kept - 1], joined});
    }
    if (i + 2 < symbols.size()) {
      change({pair.second, symbols[i + 2]}, {joined, symbols[i + 2]});
    }
    symbols[kept++] = joined;
    i += 2;
  }
  symbols.resize(kept);
  for (const Pair& after : grown) queue_.push({uses_[after].count, after});
}

void Trainer::Join(Pair pair, TokenId joined) {
  const std::vector<size_t> words = std::move(uses_[pair].words);
  for (size_t index : words) JoinInWord(pair, joined, index);
  uses_.erase(pair);
}

void Trainer::Learn(const WordCounts& counts, const OnProgress& progress) {
  TakeWords(counts);
  while (static_cast<int64_t>(tokens_.size()) < options_.size &&
         !queue_.empty()) {
    if (progress) {
      progress("join pairs", static_cast<double>(tokens_.size()),
               static_cast<double>(options_.size));
    }
    const Queued top = queue_.top();
    queue_.pop();
    const auto use = uses_.find(top.pair);
    if (use == uses_.end()) continue;
    // Counts fall without notice: queue again with what is true now.
    if (use->second.count != top.count) {
      if (use->second.count < top.count) {
        queue_.push({use->second.count, top.pair});
      }
      continue;
    }
    if (top.count < std::max<int64_t>(options_.min_count, 1)) break;
    const std::string& left = tokens_[static_cast<size_t>(top.pair.first)];
    const std::string& right = tokens_[static_cast<size_t>(top.pair.second)];
    merges_.push_back(left + " " + right);
    // Two pairs may make the same token; it has one id.
    Join(top.pair, Add(left + right));
  }
}

Json Trainer::Vocabulary() const {
  Json vocabulary = Json::object();
  for (size_t id = 0; id < tokens_.size(); ++id) vocabulary[tokens_[id]] = id;
  return vocabulary;
}

// The template that puts `bos` before one text and two.
Json BosTemplate(const std::string& bos) {
  const Json token = {{"SpecialToken", {{"id", bos}, {"type_id", 0}}}};
  const auto text = [](const char* id) {
    return Json{{"Sequence", {{"id", id}, {"type_id", 0}}}};
  };
  return {{"type", "TemplateProcessing"},
          {"single", {token, text("A")}},
          {"pair", {token, text("A"), token, text("B")}},
          {"special_tokens",
           {{bos, {{"id", bos}, {"ids", {0}}, {"tokens", {bos}}}}}}};
}

std::string TokenizerJson(const VocabularyJob& options,
                          const Trainer& trainer) {
  std::vector<std::string> specials = options.special_tokens;
  if (!options.bos.empty()) specials.insert(specials.begin(), options.bos);
  Json added = Json::array();
  for (size_t id = 0; id < specials.size(); ++id) {
    added.push_back({{"id", id},
                     {"content", specials[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", true}};
  Json model = {{"type", "BPE"},
                {"dropout", nullptr},
                {"unk_token", nullptr},
                {"continuing_subword_prefix", nullptr},
                {"end_of_word_suffix", nullptr},
                {"fuse_unk", false},
                {"byte_fallback", false},
                {"ignore_merges", false}};
  model["vocab"] = trainer.Vocabulary();
  model["merges"] = trainer.merges();
  Json file = {{"version", "1.0"},         {"truncation", nullptr},
               {"padding", nullptr},       {"added_tokens", std::move(added)},
               {"normalizer", nullptr},    {"pre_tokenizer", byte_level},
               {"post_processor", nullptr}};
  if (!options.bos.empty()) file["post_processor"] = BosTemplate(options.bos);
  file["decoder"] = byte_level;
  file["model"] = std::move(model);
  return file.dump(1) + "\n";
}

}  // namespace

std::string TrainByteLevelBpe(TextSource& texts, const VocabularyJob& options) {
  Trainer trainer(options);
  WordCounter words;
  while (const std::optional<Document> piece = texts.Next()) {
    words.Add(*piece);
    TellRead(texts, options.on_progress);
  }
  words.Finish();
  trainer.Learn(words.counts(), options.on_progress);
  return TokenizerJson(options, trainer);
}

}  // namespace headwise
