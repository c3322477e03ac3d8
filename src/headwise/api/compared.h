// Figures of two models on the same sequences, beside each other.
#pragma once

#include <cstddef>
#include <vector>

#include "headwise/evaluate.h"
#include "headwise/heads/importance/statistics.h"

namespace headwise {

// A figure by its sums over each sequence.
inline Compared CompareSums(const PairedBootstrap& bootstrap,
                            const std::vector<double>& whole,
                            const std::vector<double>& other) {
  std::vector<double> change = other;
  for (size_t i = 0; i < change.size(); ++i) change[i] -= whole[i];
  return {bootstrap.Ratio(whole), bootstrap.Ratio(other),
          bootstrap.Ratio(change)};
}

// The share of right answers, at most one a unit of weight.
inline Compared CompareShares(const PairedBootstrap& bootstrap,
                              const std::vector<double>& whole,
                              const std::vector<double>& other) {
  Compared compared = CompareSums(bootstrap, whole, other);
  compared.whole = bootstrap.Share(whole);
  compared.other = bootstrap.Share(other);
  return compared;
}

}  // namespace headwise
