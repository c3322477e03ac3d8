// Door: statistics.h.
#include "bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace headwise::bench {

double Quantile(std::span<const double> sorted, double fraction) {
  const double position = fraction * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(std::floor(position));
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double part = position - static_cast<double>(below);
  return sorted[below] + part * (sorted[above] - sorted[below]);
}

Summary Summarize(std::span<const double> samples) {
  if (samples.empty()) return {};
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  Summary summary;
  summary.median = Quantile(sorted, 0.5);
  if (summary.median > 0) {
    summary.spread =
        (Quantile(sorted, 0.75) - Quantile(sorted, 0.25)) / summary.median;
  }
  return summary;
}

}  // namespace headwise::bench
