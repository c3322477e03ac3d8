// A row of A by the formula. Door: reference_row.h.
#include "headwise/ops/attention/reference_row.h"

#include <algorithm>
#include <numeric>

#include "headwise/ops/precision.h"
#include "headwise/tensor/element.h"

namespace headwise {

double OperandOf(const AttentionProblem& problem, double value) {
  if (problem.precision == Precision::kStored) return value;
  return RoundedTo(problem.precision, static_cast<float>(value));
}

void AddScaled(std::vector<double>& sum, double w,
               const std::vector<double>& values) {
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += w * values[i];
}

std::vector<int64_t> HeadsOf(const AttentionProblem& problem,
                             const AttentionArgs& args) {
  if (!args.active_heads.is_all()) {
    const std::span<const int32_t> listed = args.active_heads.heads();
    return {listed.begin(), listed.end()};
  }
  std::vector<int64_t> all(problem.heads);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

ReferenceHead::ReferenceHead(const AttentionProblem& problem,
                             const AttentionArgs& args, int64_t sequence_index,
                             int64_t head)
    : problem_(problem),
      args_(args),
      sequence_(SequenceOf(problem, args, sequence_index)),
      head_(head),
      kv_head_(head / (problem.heads / problem.kv_heads)),
      scale_(Scale(problem)),
      keys_(problem.head_dim * sequence_.keys) {
  for (int64_t d = 0; d < problem.head_dim; ++d) {
    for (int64_t j = 0; j < sequence_.keys; ++j) {
      keys_[d * sequence_.keys + j] = OperandOf(
          problem,
          Read(args.k, sequence_.batch, sequence_.key_begin + j, kv_head_, d));
    }
  }
}

double ReferenceHead::Bias(int64_t distance) const {
  switch (problem_.bias) {
    case AttentionBias::kNone:
      return 0;
    case AttentionBias::kAlibi:
      return -Read(args_.alibi_slopes, head_) *
             static_cast<double>(std::abs(distance));
    case AttentionBias::kRelative: {
      const int64_t reach = problem_.relative_reach;
      return Read(args_.relative_table, head_,
                  std::clamp(distance, -reach, reach) + reach);
    }
  }
  return 0;
}

double ReferenceHead::SinkLogit() const {
  return args_.sink_logits ? Read(args_.sink_logits, head_) : -INFINITY;
}

void ReferenceHead::FillScores(int64_t i, ReferenceRow& row) const {
  const int64_t keys = sequence_.keys;
  const double cap = problem_.soft_cap;
  for (int64_t d = 0; d < problem_.head_dim; ++d) {
    const double q = OperandOf(
        problem_,
        Read(args_.q, sequence_.batch, sequence_.query_begin + i, head_, d));
    for (int64_t j = 0; j < keys; ++j) row.score[j] += q * keys_[d * keys + j];
  }
  for (int64_t j = 0; j < keys; ++j) {
    if (!Sees(problem_.mask, row.position, j)) {
      row.score[j] = -INFINITY;
      continue;
    }
    ++row.visible;
    row.score[j] *= scale_;
    if (cap != 0) {
      const double t = std::tanh(row.score[j] / cap);
      row.score[j] = cap * t;
      row.score_slope[j] = 1 - t * t;
    }
    row.score[j] += Bias(j - row.position);
  }
}

ReferenceRow ReferenceHead::Row(int64_t i) const {
  ReferenceRow row;
  row.position = sequence_.PositionOf(i);
  row.lse = -INFINITY;
  row.score.assign(sequence_.keys, 0);
  row.score_slope.assign(sequence_.keys, 1);
  row.probability.assign(sequence_.keys, 0);
  if (i >= sequence_.queries) return row;
  FillScores(i, row);
  double maximum = -INFINITY;
  for (const double z : row.score) {
    if (std::isnan(z)) maximum = z;
    if (z > maximum) maximum = z;
  }
  if (maximum == -INFINITY) return row;
  const double sink = SinkLogit();
  if (std::isnan(sink) || sink > maximum) maximum = sink;
  double sum = std::exp(sink - maximum);
  row.missing = sum;
  for (int64_t j = 0; j < sequence_.keys; ++j) {
    if (!SeesKey(row, j)) continue;
    row.probability[j] = std::exp(row.score[j] - maximum);
    sum += row.probability[j];
  }
  for (double& p : row.probability) p /= sum;
  row.missing /= sum;
  row.lse = maximum + std::log(sum);
  return row;
}

}  // namespace headwise
