// The ratio of a tally and its interval. Door: tally.h.
#include "headwise/heads/profile/tally.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace headwise {
namespace {

// The 97.5 % point of Student's t; Cornish–Fisher terms around the normal's
// 1.96 are exact to 1 % from three degrees of freedom on.
double StudentPoint(double freedom) {
  if (freedom <= 1) return 12.706;
  if (freedom <= 2) return 4.303;
  const double z = 1.959964, z3 = z * z * z, z5 = z3 * z * z;
  return z + (z3 + z) / (4 * freedom) +
         (5 * z5 + 16 * z3 + 3 * z) / (96 * freedom * freedom);
}

}  // namespace

Estimate Tally::Ratio() const {
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
  const double reach = StudentPoint(n - 1) * error;
  estimate.low = ratio - reach;
  estimate.high = ratio + reach;
  return estimate;
}

}  // namespace headwise
