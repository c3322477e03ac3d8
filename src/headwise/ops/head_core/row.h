// One row's part of the core sums, for the host and for kernels alike.
#pragma once

#include <cmath>
#include <cstdint>

#include "headwise/ops/head_core/implementation.h"

#ifdef __CUDACC__
#define HEADWISE_CORE_HD __host__ __device__ inline
#else
#define HEADWISE_CORE_HD inline
#endif

namespace headwise {

// The problem, and pointers to where its views lie.
struct CoreRows {
  int64_t mask_before = 0, mask_after = 0, least_visible = 2;
  int before = 0, after = 0;  // of the band
  bool cross = false;
  int64_t heads = 0, rows = 0;  // of the call
  const float *entropy = nullptr, *max = nullptr, *distance = nullptr;
  const float *first = nullptr, *band = nullptr;
  const int32_t* argmax = nullptr;
  const int32_t *query_starts = nullptr, *key_starts = nullptr;
  const uint8_t* special = nullptr;
};

// Where a view that was checked begins, wherever it lies.
template <typename T>
const T* DataOf(const ConstTensorView& view) {
  return static_cast<const T*>(view.data);
}

inline CoreRows CoreRowsOf(const HeadCoreCall& call) {
  const HeadCoreProblem& p = call.problem;
  const HeadCoreArgs& a = call.args;
  CoreRows r;
  r.mask_before = p.mask.before;
  r.mask_after = p.mask.after;
  r.least_visible = p.min_visible > 2 ? p.min_visible : 2;
  r.before = static_cast<int>(p.before);
  r.after = static_cast<int>(p.after);
  r.cross = p.cross;
  r.heads = a.entropy.shape[1];
  r.rows = a.entropy.shape[2];
  r.entropy = DataOf<float>(a.entropy);
  r.max = DataOf<float>(a.max_probability);
  r.distance = DataOf<float>(a.distance);
  r.first = DataOf<float>(a.first);
  r.band = DataOf<float>(a.band);
  r.argmax = DataOf<int32_t>(a.argmax);
  r.query_starts = DataOf<int32_t>(a.query_starts);
  r.key_starts = DataOf<int32_t>(a.key_starts);
  r.special = DataOf<uint8_t>(a.special);
  return r;
}

// Adds query i of a sequence with `keys` keys, row t of head h.
HEADWISE_CORE_HD void AddCoreRow(const CoreRows& r, int64_t h, int64_t t,
                                 int64_t i, int64_t keys,
                                 double (&sums)[kCoreColumns]) {
  const int64_t low = r.mask_before >= i ? 0 : i - r.mask_before;
  const int64_t high =
      r.mask_after >= keys - 1 - i ? keys : i + r.mask_after + 1;
  const int64_t visible = high - low;
  if (visible < r.least_visible || (i == 0 && !r.cross)) return;
  if (r.special != nullptr && r.special[t] != 0) return;
  const int64_t at = h * r.rows + t;
  const double entropy = r.entropy[at];
  if (!(fabs(entropy) <= 3.0e38)) return;  // no number
  const double normalised = entropy / logf(static_cast<float>(visible));
  const double even = 1 / static_cast<double>(visible);
  const int64_t argmax = r.argmax[at];
  sums[kCoreRows] += 1;
  sums[kCoreEntropy] += entropy;
  sums[kCoreNormalised] += normalised;
  sums[kCoreBroad] += normalised > kBroadEntropy ? 1 : 0;
  sums[kCoreMax] += r.max[at];
  if (low == 0) {
    sums[kCoreSeesFirst] += 1;
    sums[kCoreFirst] += r.first[at];
    sums[kCoreFirstChance] += even;
    sums[kCoreFirstArgmax] += argmax == 0 ? 1 : 0;
  }
  if (r.cross) return;
  sums[kCoreDistance] += r.distance[at];
  sums[kCoreArgmaxDistance] += fabs(static_cast<double>(i - argmax));
  const float* band = r.band + at * (r.before + r.after + 1) + r.before;
#ifdef __CUDACC__
#pragma unroll
#endif
  for (int k = -1; k <= 1; ++k) {
    if (k < -r.before || k > r.after || i + k < low || i + k >= high) continue;
    const int column = kCoreOffsets + (k + 1) * kOffsetColumns;
    sums[column] += 1;
    sums[column + 1] += band[k];
    sums[column + 2] += even;
    sums[column + 3] += argmax == i + k ? 1 : 0;
  }
}

}  // namespace headwise
