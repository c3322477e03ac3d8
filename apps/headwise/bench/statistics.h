// Median and spread of repeated timings.
#pragma once

#include <span>

namespace headwise::bench {

// The value below which `fraction` of the samples lie, linear between
// neighbours. `sorted` ascending and not empty, 0 ≤ fraction ≤ 1.
double Quantile(std::span<const double> sorted, double fraction);

struct Summary {
  double median = 0;
  double spread = 0;  // (upper quartile − lower quartile) / median
};

// Samples in any order; none gives zeros.
Summary Summarize(std::span<const double> samples);

}  // namespace headwise::bench
