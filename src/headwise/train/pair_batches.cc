// Sentence pairs. Door: pair_batches.h.
#include "headwise/train/pair_batches.h"

#include <algorithm>
#include <set>
#include <utility>

#include "headwise/error.h"
#include "headwise/ops/loss/loss.h"
#include "headwise/tokenizer/text_source.h"

namespace headwise {
namespace {

std::vector<int32_t> Encode(const Tokenizer& tokenizer, std::string_view text,
                            int64_t longest) {
  std::vector<int32_t> ids =
      tokenizer.Encode(text, {.add_special_tokens = false}).ids;
  if (static_cast<int64_t>(ids.size()) > longest) ids.resize(longest);
  return ids;
}

// take(left, right) for every line of a text that is not empty.
template <typename Take>
void ForLines(std::string_view text, const std::string& where,
              const char* expected, const Take& take) {
  int64_t number = 0;
  while (!text.empty()) {
    ++number;
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const size_t tab = line.find('\t');
    const auto tabs = std::count(line.begin(), line.end(), '\t');
    if (tabs != 1 || tab == 0 || tab + 1 == line.size()) {
      throw Error(ErrorCode::kInvalidArgument,
                  {where + ":" + std::to_string(number), expected,
                   tabs == 0   ? "no tab"
                   : tabs == 1 ? "an empty side"
                               : std::to_string(tabs + 1) + " columns",
                   tabs > 1 ? "cut -f2,3 keeps two of them" : ""});
    }
    take(line.substr(0, tab), line.substr(tab + 1));
  }
}

}  // namespace

std::vector<TokenPair> ReadPairs(std::string_view text,
                                 const std::string& where,
                                 const Tokenizer& tokenizer, int64_t longest) {
  std::vector<TokenPair> pairs;
  ForLines(text, where, "source, a tab, target",
           [&](std::string_view source, std::string_view target) {
             pairs.push_back({Encode(tokenizer, source, longest),
                              Encode(tokenizer, target, longest)});
           });
  return pairs;
}

std::vector<TokenPair> ReadPairs(const std::filesystem::path& file,
                                 const Tokenizer& tokenizer, int64_t longest) {
  std::vector<TokenPair> pairs;
  for (const Document& document : ReadDocuments(file)) {
    for (TokenPair& pair :
         ReadPairs(document.text, document.name, tokenizer, longest)) {
      pairs.push_back(std::move(pair));
    }
  }
  return pairs;
}

LabelledTexts ReadLabelled(const std::vector<std::filesystem::path>& files,
                           const Framer& framer, int64_t longest) {
  LabelledTexts read;
  std::vector<std::string> labels;
  for (const std::filesystem::path& path : files) {
    for (const Document& document : ReadDocuments(path)) {
      ForLines(document.text, document.name, "text, a tab, label",
               [&](std::string_view text, std::string_view label) {
                 std::vector<int32_t> ids = framer.Encode(text).ids;
                 if (static_cast<int64_t>(ids.size()) > longest) {
                   ids.resize(longest);
                 }
                 read.texts.push_back({std::move(ids), 0});
                 labels.emplace_back(label);
               });
    }
  }
  const std::set<std::string> distinct(labels.begin(), labels.end());
  read.labels.assign(distinct.begin(), distinct.end());
  if (read.labels.size() < 2) {
    throw Error(ErrorCode::kInvalidArgument,
                {"training data", "at least two labels",
                 std::to_string(read.labels.size()),
                 "each line is text, a tab, label"});
  }
  for (size_t i = 0; i < labels.size(); ++i) {
    read.texts[i].label = static_cast<int32_t>(
        std::lower_bound(read.labels.begin(), read.labels.end(), labels[i]) -
        read.labels.begin());
  }
  return read;
}

LabelledBatches::LabelledBatches(std::vector<LabelledText> texts, bool last,
                                 bool shuffled, uint64_t seed)
    : texts_(std::move(texts)), last_(last), shuffled_(shuffled), seed_(seed) {
  if (!texts_.empty()) return;
  throw Error(ErrorCode::kInvalidArgument,
              {"training data", "at least one text", "none",
               "each line is text, a tab, label"});
}

TrainBatch LabelledBatches::Make(int64_t first, int64_t count) const {
  TrainBatch batch;
  std::vector<int64_t> lengths;
  for (int64_t i = first; i < first + count; ++i) {
    const auto& [ids, label] =
        texts_[shuffled_ ? ShuffledPlace(i, size(), seed_) : i % size()];
    const size_t begin = batch.ids.size();
    batch.ids.insert(batch.ids.end(), ids.begin(), ids.end());
    batch.targets.resize(batch.ids.size(), kIgnoreTarget);
    batch.targets[last_ ? batch.ids.size() - 1 : begin] = label;
    lengths.push_back(static_cast<int64_t>(ids.size()));
  }
  batch.batch = MakeBatch(lengths);
  return batch;
}

PairBatches::PairBatches(std::vector<TokenPair> pairs, PairOptions options)
    : pairs_(std::move(pairs)), options_(options) {
  if (!pairs_.empty()) return;
  throw Error(ErrorCode::kInvalidArgument,
              {"training data", "at least one pair", "none",
               "each line is source, a tab, target"});
}

TrainBatch PairBatches::Make(int64_t first, int64_t count) const {
  TrainBatch batch;
  std::vector<int64_t> lengths, source_lengths;
  for (int64_t i = first; i < first + count; ++i) {
    const int64_t place = options_.shuffled
                              ? ShuffledPlace(i, size(), options_.seed)
                              : i % size();
    const auto& [source, target] = pairs_[place];
    batch.source_ids.insert(batch.source_ids.end(), source.begin(),
                            source.end());
    batch.source_ids.push_back(options_.eos);
    source_lengths.push_back(static_cast<int64_t>(source.size()) + 1);
    batch.ids.push_back(options_.start);
    batch.ids.insert(batch.ids.end(), target.begin(), target.end());
    batch.targets.insert(batch.targets.end(), target.begin(), target.end());
    batch.targets.push_back(options_.eos);
    lengths.push_back(static_cast<int64_t>(target.size()) + 1);
  }
  batch.batch = MakeBatch(lengths);
  batch.source = MakeBatch(source_lengths);
  return batch;
}

}  // namespace headwise
