// The statistics of comparing runs: paired bootstrap over sequences, tests with
// false-discovery control, rank correlations, and how uneven a set of
// importances is.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/loss.h"

namespace headwise {

// Resamples sequences with replacement, the same ones for every variant, so
// that what makes a sequence hard cancels out of a difference.
class PairedBootstrap {
 public:
  // weights: one a sequence (its predictions).
  PairedBootstrap(std::vector<double> weights, int64_t replicates,
                  uint64_t seed);

  // Σ sums / Σ weights with an expanded percentile interval (the level is
  // widened as Student's t is wider than the normal, since plain percentiles
  // of few sequences are too narrow). sums: one a sequence.
  Interval Ratio(std::span<const double> sums) const;

  // The same of sums in [0, weight], as of right answers: Wilson's interval,
  // which says something where all are right too.
  Interval Share(std::span<const double> sums) const;

 private:
  std::vector<double> weights_;
  int64_t replicates_;
  double tail_;                  // of the widened level
  std::vector<uint8_t> counts_;  // [replicates, sequences]
  std::vector<double> totals_;   // of the weights, one a replicate
};

// The probability of a ratio Σ sums / Σ weights this far below 0 if it were 0:
// one-sided t test of the linearised ratio over sequences. 1 with fewer than
// two sequences.
double BelowZeroP(std::span<const double> sums,
                  std::span<const double> weights);

// Which hypotheses to reject so that of those at most a share q is expected to
// be false (Benjamini and Hochberg 1995).
std::vector<bool> BenjaminiHochberg(std::span<const double> p, double q);

// Correlations of ranks, ties shared: Spearman's ρ, Kendall's τ_b. NaN where
// one side is constant or holds a NaN.
double Spearman(std::span<const double> a, std::span<const double> b);
double Kendall(std::span<const double> a, std::span<const double> b);

// The rest see values below 0 as 0.
//
// 0: all equal; towards 1: one has everything.
double Gini(std::span<const double> values);
// exp of the entropy of values / Σ values: how many equal ones would be as
// even. 0 when all are 0.
double EffectiveNumber(std::span<const double> values);
// The fewest of the largest that hold this share of the sum.
int64_t CountForShare(std::span<const double> values, double share);

}  // namespace headwise
