// BLEU of translations (Papineni et al. 2002), as sacreBLEU computes it by
// default (tokens 13a, case kept, up to four words, exponential smoothing,
// effective order off), so that scores can be compared with published ones.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/export.h"
#include "headwise/fields.h"

namespace headwise {

/// The signature that sacreBLEU prints for these settings.
inline constexpr const char* kBleuSignature =
    "case:mixed|eff:no|tok:13a|smooth:exp";

/// The words of a segment as mteval-v13a cuts them.
HEADWISE_API std::vector<std::string> BleuTokens(std::string_view text);

/// Counts of one segment or, added up, of a corpus.
struct BleuCounts {
  static constexpr int kOrders = 4;

  int64_t hypothesis = 0;                ///< words
  int64_t reference = 0;                 ///< words
  std::array<int64_t, kOrders> hits{};   ///< n-grams found in the reference
  std::array<int64_t, kOrders> total{};  ///< n-grams of the hypothesis

  HEADWISE_API void Add(const BleuCounts& other, int64_t times = 1);
};

HEADWISE_API BleuCounts CountBleu(std::string_view hypothesis,
                                  std::string_view reference);

/// Counts of each line against the reference of its number. Throws
/// Error(kInvalidArgument) where there are not as many, or none.
HEADWISE_API std::vector<BleuCounts> CountBleu(
    std::span<const std::string> hypotheses,
    std::span<const std::string> references);

struct BleuScore {
  double score = 0;                                      ///< 0 to 100
  std::array<double, BleuCounts::kOrders> precisions{};  ///< in per cent
  double brevity = 1;  ///< the penalty for being shorter than the reference
};

HEADWISE_API BleuScore ComputeBleu(const BleuCounts& counts);

/// How intervals are drawn: corpora of segments, resampled with replacement.
struct BleuJob {
  int64_t replicates = 1000;
  uint64_t seed = 12345;

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("replicates", self.replicates,
          "resampled corpora of the 95 % intervals", Between(1, 1000000));
    visit("seed", self.seed, "seed of the resampling");
  }
};

/// A score with the middle 95 % of the resampled corpora.
struct BleuEstimate {
  BleuCounts counts;
  BleuScore score;
  double low = 0;
  double high = 0;
};

HEADWISE_API BleuEstimate EstimateBleu(std::span<const BleuCounts> segments,
                                       const BleuJob& job = {});

/// BLEU of a minus BLEU of b on the same segments, resampled together.
struct BleuDifference {
  double value = 0;
  double low = 0;
  double high = 0;
};

/// Throws Error(kInvalidArgument) when the numbers of segments differ.
HEADWISE_API BleuDifference CompareBleu(std::span<const BleuCounts> a,
                                        std::span<const BleuCounts> b,
                                        const BleuJob& job = {});

}  // namespace headwise
