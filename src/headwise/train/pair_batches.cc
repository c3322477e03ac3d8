// Sentence pairs. Door: pair_batches.h.
#include "headwise/train/pair_batches.h"

#include <utility>

#include "headwise/error.h"

namespace headwise {
namespace {

std::vector<int32_t> Encode(const Tokenizer& tokenizer, std::string_view text,
                            int64_t longest) {
  std::vector<int32_t> ids =
      tokenizer.Encode(text, {.add_special_tokens = false}).ids;
  if (static_cast<int64_t>(ids.size()) > longest) ids.resize(longest);
  return ids;
}

}  // namespace

std::vector<TokenPair> ReadPairs(std::string_view text,
                                 const std::string& where,
                                 const Tokenizer& tokenizer, int64_t longest) {
  std::vector<TokenPair> pairs;
  int64_t number = 0;
  while (!text.empty()) {
    ++number;
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const size_t tab = line.find('\t');
    if (tab == line.npos || tab == 0 || tab + 1 == line.size()) {
      throw Error(
          ErrorCode::kInvalidArgument,
          {where + ":" + std::to_string(number), "source, a tab, target",
           tab == line.npos ? "no tab" : "an empty side", ""});
    }
    pairs.push_back({Encode(tokenizer, line.substr(0, tab), longest),
                     Encode(tokenizer, line.substr(tab + 1), longest)});
  }
  return pairs;
}

PairBatches::PairBatches(std::vector<TokenPair> pairs, PairOptions options)
    : pairs_(std::move(pairs)), options_(options) {
  if (!pairs_.empty()) return;
  throw Error(ErrorCode::kInvalidArgument,
              {"training data", "at least one pair", "none", ""});
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
