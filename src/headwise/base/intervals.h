// 95 % intervals of means whose scatter was estimated, in the range that the
// mean can have. Every interval that is not a bootstrap's is one of these.
#pragma once

#include <cstdint>
#include <limits>

namespace headwise {

// What a quantity can be at all.
struct Bounds {
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  double low = -kInfinity, high = kInfinity;

  friend bool operator==(const Bounds&, const Bounds&) = default;
};
inline constexpr Bounds kShare = {0, 1};
// Also correlations.
inline constexpr Bounds kShareDifference = {-1, 1};
// R² of what was not seen in training.
inline constexpr Bounds kExplained = {-Bounds::kInfinity, 1};
inline constexpr Bounds kNotNegative = {0, Bounds::kInfinity};

struct Ends {
  double low = 0, high = 0;
};

// Of a mean of `count` values, or sequences, and its standard error. Without
// bounds mean ± t · error, Student's t of count − 1 degrees of freedom. With
// bounds the scores that are not t or more errors from the mean, where the
// error of a score changes as that of a share does, towards 0 at a bound:
// Wilson's interval of a share of effectively mean (1 − mean) / error² cases.
// A share at a bound, and what else does not scatter there: what so many cases
// in a row leave possible (Clopper and Pearson): `cases`, where each value is
// itself a mean of several, else `count`. Infinite ends for fewer than two.
Ends MeanEnds(double mean, double error, int64_t count,
              const Bounds& bounds = {}, double cases = 0);

}  // namespace headwise
