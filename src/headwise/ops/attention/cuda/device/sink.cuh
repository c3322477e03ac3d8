// Sinks: a logit of each head's own in the denominator, which takes its share
// of every row that sees a key. A row's sums are of keys alone; the sink joins
// them at its end.
#pragma once

#include "headwise/ops/attention/cuda/device/softmax.cuh"
#include "headwise/ops/attention/cuda/params.h"

namespace headwise::attention_cuda {

// The share of a row that its sink took, given the row's LSE; 0 for one that
// sees nothing.
__device__ inline float SinkShare(const ForwardParams& p, int head, float lse) {
  if (p.sink_logits == nullptr || lse == -INFINITY) return 0;
  const float share = expf(p.sink_logits[head] - lse);
  return share > 1 ? 1 : share;  // the LSE is rounded
}

// How a row ends. The denominator is in units of 2^reference.
struct RowEnd {
  float inverse;  // of the denominator; 0 for a row that sees nothing
  float log;      // of the denominator, to base 2
  float missing;  // the share that no key has
};

// One division and no branch, with a sink or without: every row of every launch
// ends here.
__device__ inline RowEnd EndOf(const ForwardParams& p, const RowPartial& row,
                               int head) {
  const float logit =
      p.sink_logits != nullptr ? p.sink_logits[head] : -INFINITY;
  const float ahead = fmaf(logit, 1 / kLn2, -row.reference);
  const float sink = Exp2(ahead), all = row.sum + sink;
  const bool seen = row.sum != 0;
  // So far ahead that nothing is left for keys; NaN where it is +∞.
  const bool is_all = sink != 0 && all == INFINITY;
  RowEnd end;
  end.inverse = !seen ? 0 : is_all ? 0 * ahead : 1 / all;
  end.log = is_all ? ahead + end.inverse : __log2f(all);
  end.missing = !seen || sink == 0 ? 0 : is_all ? 1 : sink * end.inverse;
  return end;
}

// −Σ A·log2 A over the row's keys.
__device__ inline float EntropyOf(const RowPartial& row, const RowEnd& end) {
  // With nothing missing the product is exact.
  return fmaf(-row.entropy, end.inverse, __fmul_rn(end.log, 1 - end.missing));
}

}  // namespace headwise::attention_cuda
