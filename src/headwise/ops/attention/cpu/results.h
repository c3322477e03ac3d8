// Where the forward's results go: one query at a time into the views of the
// call, and into the sums of its head.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <span>

#include "headwise/ops/attention/cpu/forward_plan.h"
#include "headwise/ops/attention/cpu/score_rule.h"

namespace headwise {

// What is known of one query when its last key has been seen.
struct RowResult {
  int64_t query = 0;
  int64_t position = 0;
  int64_t visible = 0;
  bool empty = true;  // saw no key: every result is zero
  bool finite = true;
  double inverse = 0;  // of Σ e; the arrays below are still to be multiplied
  double lse = -INFINITY;
  double entropy = 0;
  double varentropy = 0;
  double max_probability = 0;
  double kept_max = 0;
  double distance = 0;
  double missing = 0;
  double sum_squares = 0;
  int64_t argmax = -1;
  int64_t kept_argmax = -1;
  const float* values = nullptr;     // [value_dim]
  const float* features = nullptr;   // [features]
  const float* histogram = nullptr;  // [buckets], or null
  int64_t histogram_stride = 1;      // between buckets
  // Buckets outside of these are empty, and not in the memory.
  int histogram_begin = 0, histogram_end = kHistogramBuckets;
  std::array<float, kMaxLabelChannels> label_mass{};  // [labels]

  // Some score was NaN or +∞: no statistic has a value.
  void SetNonFinite();
  // The row's distribution over its keys gives a part of itself to a sink, as
  // if that had been one more key: no walk over keys need know of it.
  void TakeSink(double logit);
};

// Sums of one block: SumColumn, histogram, features, labels, side by side.
inline int64_t PartialSize(const ForwardCall& call) {
  return kSumColumns + kHistogramBuckets + call.features + call.labels;
}

// The results of one block of queries of one head.
class ResultWriter {
 public:
  // partial: [PartialSize], where the block's sums are put; empty: not wanted.
  ResultWriter(const ForwardCall& call, const Sequence& sequence, int64_t head,
               std::span<double> partial);

  bool wants_histogram() const { return wants_histogram_; }
  // The first key of a query's range that is not excluded, or −1.
  int64_t FirstKept(const KeyRange& range) const;
  void Write(const RowResult& row);
  // Rows of the views past the sequence's last query.
  void ClearPadding();

 private:
  void WriteAll(const RowResult& row);
  void WriteOutput(const RowResult& row);
  void WriteRow(const RowResult& row);
  void AddToSums(const RowResult& row);
  // SumColumn, with weight w.
  void AddColumns(const RowResult& row, double w);

  const ForwardCall& call_;
  const Sequence& sequence_;
  int64_t head_;
  std::span<double> partial_;
  bool wants_histogram_;
  double sink_logit_ = -INFINITY;
};

// Adds a head's partial sums in order and writes them. partials:
// [end − begin, PartialSize] of the head.
void WriteSums(const ForwardCall& call, const HeadSum& head,
               std::span<const double> partials);

// Whether any sum is asked for.
bool WantsSums(const ForwardCall& call);

}  // namespace headwise
