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

// What was observed of one row.
struct CoreValues {
  float entropy = 0, max = 0, distance = 0, first = 0;
  float band[3] = {};  // of the keys at i − 1 … i + 1
  int32_t argmax = 0;
};

// Of row t of head h; what the call does not have stays 0.
HEADWISE_CORE_HD CoreValues CoreValuesAt(const CoreRows& r, int64_t h,
                                         int64_t t) {
  const int64_t at = h * r.rows + t;
  CoreValues v;
  v.entropy = r.entropy[at];
  v.max = r.max[at];
  v.first = r.first[at];
  v.argmax = r.argmax[at];
  if (r.cross) return v;
  v.distance = r.distance[at];
  const float* band = r.band + at * (r.before + r.after + 1) + r.before;
  if (r.before > 0) v.band[0] = band[-1];
  v.band[1] = band[0];
  if (r.after > 0) v.band[2] = band[1];
  return v;
}

// Adds query i of a sequence with `keys` keys, which is row t of the call.
HEADWISE_CORE_HD void AddCoreRow(const CoreRows& r, const CoreValues& v,
                                 int64_t t, int64_t i, int64_t keys,
                                 double (&sums)[kCoreColumns]) {
  const int64_t low = r.mask_before >= i ? 0 : i - r.mask_before;
  const int64_t high =
      r.mask_after >= keys - 1 - i ? keys : i + r.mask_after + 1;
  const int64_t visible = high - low;
  if (visible < r.least_visible || (i == 0 && !r.cross)) return;
  if (r.special != nullptr && r.special[t] != 0) return;
  const double entropy = v.entropy;
  if (!(fabs(entropy) <= 3.0e38)) return;  // no number
  const double normalised = entropy / logf(static_cast<float>(visible));
  const double even = 1 / static_cast<double>(visible);
  sums[kCoreRows] += 1;
  sums[kCoreEntropy] += entropy;
  sums[kCoreNormalised] += normalised;
  sums[kCoreBroad] += normalised > kBroadEntropy ? 1 : 0;
  sums[kCoreMax] += v.max;
  if (low == 0) {
    sums[kCoreSeesFirst] += 1;
    sums[kCoreFirst] += v.first;
    sums[kCoreFirstChance] += even;
    sums[kCoreFirstArgmax] += v.argmax == 0 ? 1 : 0;
  }
  if (r.cross) return;
  sums[kCoreDistance] += v.distance;
  sums[kCoreArgmaxDistance] += fabs(static_cast<double>(i - v.argmax));
#ifdef __CUDACC__
#pragma unroll
#endif
  for (int k = -1; k <= 1; ++k) {
    if (k < -r.before || k > r.after || i + k < low || i + k >= high) continue;
    const int column = kCoreOffsets + (k + 1) * kOffsetColumns;
    sums[column] += 1;
    sums[column + 1] += v.band[k + 1];
    sums[column + 2] += even;
    sums[column + 3] += v.argmax == i + k ? 1 : 0;
  }
}

}  // namespace headwise
