// One head of one sequence by the formula, in double: the scores and
// probabilities of a query as dense vectors. Everything else in the reference
// is read off them.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "headwise/attention.h"
#include "headwise/observation.h"
#include "headwise/ops/attention/geometry.h"

namespace headwise {

// Heads to compute: the active ones, or all.
std::vector<int64_t> HeadsOf(const AttentionProblem& problem,
                             const AttentionArgs& args);

// An operand of a product in the problem's precision.
double OperandOf(const AttentionProblem& problem, double value);

// sum += w · values.
void AddScaled(std::vector<double>& sum, double w,
               const std::vector<double>& values);

// A query's row of A. Vectors have one entry per key of the sequence.
struct ReferenceRow {
  int64_t position = 0;             // of the query
  int64_t visible = 0;              // keys it sees
  double lse = 0;                   // −∞ where it sees nothing
  double missing = 0;               // 1 − Σ A: what the sink took
  std::vector<double> score;        // z; −∞ where unseen
  std::vector<double> score_slope;  // ∂z/∂(scale·q·k), 1 without soft-cap
  std::vector<double> probability;  // A; 0 where unseen

  // A row that sees nothing (or scores −∞ alone) has no distribution; one with
  // a NaN or +∞ score has one that is not finite.
  bool empty() const { return lse == -INFINITY; }
  bool finite() const { return std::isfinite(lse) || empty(); }
};

class ReferenceHead {
 public:
  ReferenceHead(const AttentionProblem& problem, const AttentionArgs& args,
                int64_t sequence_index, int64_t head);

  const Sequence& sequence() const { return sequence_; }
  int64_t head() const { return head_; }
  int64_t kv_head() const { return kv_head_; }
  double scale() const { return scale_; }

  // The row of query i; empty for one past the sequence's length.
  ReferenceRow Row(int64_t i) const;
  bool SeesKey(const ReferenceRow& row, int64_t j) const {
    return row.visible > 0 && Sees(problem_.mask, row.position, j);
  }

 private:
  double Bias(int64_t distance) const;  // of key j = p + distance
  double SinkLogit() const;             // −∞ where there is none
  void FillScores(int64_t i, ReferenceRow& row) const;

  const AttentionProblem& problem_;
  const AttentionArgs& args_;
  Sequence sequence_;
  int64_t head_;
  int64_t kv_head_;
  double scale_;
  // [D, keys]: the transpose lets the plain loop run along keys.
  std::vector<double> keys_;
};

// Statistics of one row (reference_observation.cc); a row that is not finite
// has NaN in all of them, an empty one 0.
struct ReferenceStatistics {
  double entropy = 0;
  double varentropy = 0;
  double max_probability = 0;
  double kept_max = 0;
  double distance = 0;
  double missing = 0;
  double sum_squares = 0;
  int64_t argmax = -1;
  int64_t kept_argmax = -1;
  std::vector<double> histogram;
  std::vector<double> feature_mass;
  std::vector<double> label_mass;
};
double Entropy(const ReferenceRow& row);

// Writes the row's statistics and adds them to the sums of its sequence.
class ReferenceObserver {
 public:
  ReferenceObserver(const Observation& observation, const ReferenceHead& head,
                    int64_t sequence_index);
  void AddRow(int64_t i, const ReferenceRow& row);
  void WriteSums() const;

 private:
  ReferenceStatistics Measure(int64_t i, const ReferenceRow& row) const;
  void Store(int64_t i, const ReferenceStatistics& s) const;
  void Sum(int64_t i, const ReferenceRow& row, const ReferenceStatistics& s);

  const Observation& o_;
  const ReferenceHead& head_;
  int64_t sequence_index_;
  std::vector<double> sums_;
  std::vector<double> histogram_;
  std::vector<double> feature_mass_;
  std::vector<double> label_mass_;
};

}  // namespace headwise
