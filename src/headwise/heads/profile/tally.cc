// The ratio of a tally and its interval. Door: include/headwise/profile.h.

#include <algorithm>
#include <cmath>
#include <limits>

#include "headwise/base/intervals.h"
#include "headwise/profile.h"

namespace headwise {

Estimate Tally::Ratio(double least, double most) const {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  Estimate estimate{kNone, kNone, kNone, w, static_cast<int64_t>(n)};
  if (empty()) return estimate;
  const double ratio = x / w;
  estimate.mean = ratio;
  if (n < 2) return estimate;
  // Residuals x − R·w of a ratio estimator: their sum is 0, so their sum of
  // squares is all there is to their variance.
  const double squares =
      std::max(0.0, xx - 2 * ratio * wx + ratio * ratio * ww);
  const double error = std::sqrt(n / (n - 1) * squares) / w;
  const Ends ends =
      MeanEnds(ratio, error, static_cast<int64_t>(n), {least, most}, w);
  estimate.low = ends.low;
  estimate.high = ends.high;
  return estimate;
}

}  // namespace headwise
