// BLEU (Papineni et al. 2002) as sacreBLEU computes it by default (tokens 13a,
// case kept, up to four words, exponential smoothing, effective order off), so
// that scores can be compared with published ones.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headwise {

// The words of a segment as mteval-v13a cuts them.
std::vector<std::string> BleuTokens(std::string_view text);

// Counts for BLEU of one segment or, added up, of a corpus.
struct BleuCounts {
  static constexpr int kOrders = 4;

  int64_t hypothesis = 0;                // words
  int64_t reference = 0;                 // words
  std::array<int64_t, kOrders> hits{};   // n-grams found in the reference
  std::array<int64_t, kOrders> total{};  // n-grams of the hypothesis

  void Add(const BleuCounts& other, int64_t times = 1);
};

BleuCounts CountBleu(std::string_view hypothesis, std::string_view reference);

struct BleuScore {
  double score = 0;                                      // 0 to 100
  std::array<double, BleuCounts::kOrders> precisions{};  // in per cent
  double brevity = 1;  // the penalty for being shorter than the reference
};

BleuScore ComputeBleu(const BleuCounts& counts);

// A score with the middle 95 % of what resampled corpora give.
struct BleuEstimate {
  BleuCounts counts;
  BleuScore score;
  double low = 0;
  double high = 0;
};

// Segments are drawn with replacement, `replicates` times.
BleuEstimate EstimateBleu(std::span<const BleuCounts> segments,
                          int64_t replicates = 1000, uint64_t seed = 12345);

// BLEU of a minus BLEU of b on the same segments, resampled together.
struct BleuDifference {
  double value = 0;
  double low = 0;
  double high = 0;
};

// Throws Error(kInvalidArgument) when the numbers of segments differ.
BleuDifference CompareBleu(std::span<const BleuCounts> a,
                           std::span<const BleuCounts> b,
                           int64_t replicates = 1000, uint64_t seed = 12345);

}  // namespace headwise
