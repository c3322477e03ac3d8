// Linear equations. Door: solve.h.
#include "headwise/tensor/solve.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace headwise {

void SolvePositive(Matrix& a, Matrix& b) {
  const int64_t n = a.rows;
  for (int64_t j = 0; j < n; ++j) {
    double* row = &a(j, 0);
    for (int64_t i = 0; i <= j; ++i) {
      const double* above = &a(i, 0);
      double sum = row[i];
      for (int64_t p = 0; p < i; ++p) sum -= row[p] * above[p];
      // The ridge keeps it positive but for rounding.
      row[i] =
          i < j ? sum / above[i]
                : std::sqrt(std::max(sum, std::numeric_limits<double>::min()));
    }
  }
  const auto subtract = [&](int64_t from, int64_t to, double factor) {
    for (int64_t c = 0; c < b.columns; ++c) b(to, c) -= factor * b(from, c);
  };
  const auto divide = [&](int64_t i) {
    for (int64_t c = 0; c < b.columns; ++c) b(i, c) /= a(i, i);
  };
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t p = 0; p < i; ++p) subtract(p, i, a(i, p));
    divide(i);
  }
  for (int64_t i = n; i-- > 0;) {
    for (int64_t p = i + 1; p < n; ++p) subtract(p, i, a(p, i));
    divide(i);
  }
}

}  // namespace headwise
