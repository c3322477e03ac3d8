// Ranks on the host.
#pragma once

#include <span>
#include <vector>

namespace headwise {

// Ranks of n values, ties at their mean, less the mean of all; and their norm.
struct Ranks {
  std::vector<double> centred;
  double norm = 0;
};
Ranks RanksOf(std::span<const float> values);

// 0 where one of them is constant.
double Correlation(const Ranks& a, const Ranks& b);

}  // namespace headwise
