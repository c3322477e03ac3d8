// Intervals within bounds. Door: intervals.h.
#include "headwise/base/intervals.h"

#include <algorithm>
#include <cmath>

#include "headwise/base/quantiles.h"

namespace headwise {
namespace {

constexpr double kTail = 0.025;
// Shares are sums of float probabilities: what is at a bound may come out a
// rounding beside it.
constexpr double kRounding = 1e-6;

// Distances x from the one bound with (distance − x)² = k x: both roots.
Ends Distances(double distance, double reach) {
  const double k = reach * reach / distance;
  const double root = std::sqrt(k * k + 4 * k * distance);
  const double far = 0.5 * (2 * distance + k + root);
  return {distance * distance / far, far};  // their product is distance²
}

// counted: a share at a bound may be one of cases.
Ends WithinShare(double share, double reach, double cases, bool counted) {
  const double least = std::pow(kTail, 1 / cases);
  if (counted && share <= kRounding) return {0, 1 - least};
  if (counted && share >= 1 - kRounding) return {least, 1};
  if (share <= 0) return {0, reach};
  if (share >= 1) return {1 - reach, 1};
  // (share − x)² = k x (1 − x)
  const double k = reach * reach / (share * (1 - share));
  const double root = std::sqrt(k * k + 4 * k * share * (1 - share));
  const double high = (2 * share + k + root) / (2 * (1 + k));
  return {share * share / ((1 + k) * high), std::min(1.0, high)};
}

}  // namespace

Ends MeanEnds(double mean, double error, int64_t count, const Bounds& bounds,
              double cases) {
  if (count < 2) return {-Bounds::kInfinity, Bounds::kInfinity};
  const double reach =
      StudentQuantile(1 - kTail, static_cast<double>(count - 1)) * error;
  const double range = bounds.high - bounds.low;
  if (std::isfinite(range)) {
    const double share = (mean - bounds.low) / range;
    if (share < -kRounding || share > 1 + kRounding) {
      return {mean - reach, mean + reach};
    }
    const Ends ends = WithinShare(share, reach / range,
                                  std::max(cases, static_cast<double>(count)),
                                  bounds == kShare || error == 0);
    return {bounds.low + range * ends.low, bounds.low + range * ends.high};
  }
  if (std::isfinite(bounds.low) && mean > bounds.low) {
    const Ends away = Distances(mean - bounds.low, reach);
    return {bounds.low + away.low, bounds.low + away.high};
  }
  if (std::isfinite(bounds.high) && mean < bounds.high) {
    const Ends away = Distances(bounds.high - mean, reach);
    return {bounds.high - away.high, bounds.high - away.low};
  }
  return {mean - reach, mean + reach};
}

}  // namespace headwise
