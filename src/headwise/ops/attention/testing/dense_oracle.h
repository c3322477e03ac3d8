// The attention formula a second time, as one dense matrix per head, written
// from the words of attention.h and observation.h alone: what the reference
// itself is held to. Views may be f64, so that finite differences do not drown
// in rounding. Test only; small problems.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headwise/attention.h"
#include "headwise/observation.h"

namespace headwise {

struct DenseHead {
  int64_t sequence = 0;
  int64_t head = 0;
  int64_t query_begin = 0;  // rows of this sequence in the views
  int64_t key_begin = 0;
  int64_t batch = 0;                    // slice of the views
  int64_t offset = 0;                   // of the first query
  std::vector<std::vector<double>> a;   // A, [queries][keys]
  std::vector<std::vector<bool>> seen;  // [queries][keys]
  std::vector<std::vector<double>> o;   // O before the gate, [queries][E]
  std::vector<double> lse;              // [queries]
};

// Every active head of every sequence.
std::vector<DenseHead> DenseAttention(const AttentionProblem& problem,
                                      const AttentionArgs& args);

// A statistic of row i by name ("entropy", "distance", …): as in RowStatistics,
// `column` for those that have several.
double DenseStatistic(const DenseHead& head, const Observation& observation,
                      const std::string& name, int64_t i, int64_t column);

// Σ ⟨dout, out⟩ + Σ dentropy·H: what a backward call differentiates.
double DenseLoss(const AttentionProblem& problem, const AttentionArgs& args,
                 const ConstTensorView& dout, const ConstTensorView& dentropy);

}  // namespace headwise
