// One row's part of the core, for the host and for kernels alike.
#pragma once

#include <cmath>
#include <cstdint>

#include "headwise/heads/profile/rows/core_rows.h"
#include "headwise/heads/profile/rows/row.h"
#include "headwise/ops/implementation_list.h"

namespace headwise {

struct CoreRowsCall {
  const CoreRowsProblem& problem;
  const CoreRowsArgs& args;
};

ImplementationList<CoreRowsCall> CoreRowsImplementations();

// The entries, one per file that makes them.
extern const Implementation<CoreRowsCall> kCoreRowsReference;  // core_rows.cc
extern const Implementation<CoreRowsCall> kCoreRowsCuda;  // cuda/core_rows.cu

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

inline CoreRows CoreRowsOf(const CoreRowsCall& call) {
  const CoreRowsProblem& p = call.problem;
  const CoreRowsArgs& a = call.args;
  CoreRows r;
  r.mask_before = p.mask.before;
  r.mask_after = p.mask.after;
  r.least_visible = p.min_visible > 2 ? p.min_visible : 2;
  r.before = static_cast<int>(p.before);
  r.after = static_cast<int>(p.after);
  r.cross = p.cross;
  r.heads = a.entropy.shape[1];
  r.rows = a.entropy.shape[2];
  r.entropy = a.entropy.Raw<float>();
  r.max = a.max_probability.Raw<float>();
  r.distance = a.distance.Raw<float>();
  r.first = a.first.Raw<float>();
  r.band = a.band.Raw<float>();
  r.argmax = a.argmax.Raw<int32_t>();
  r.query_starts = a.query_starts.Raw<int32_t>();
  r.key_starts = a.key_starts.Raw<int32_t>();
  r.special = a.special.Raw<uint8_t>();
  return r;
}

// One row as it was observed.
struct CoreValues {
  float entropy = 0, max = 0, distance = 0, first = 0;
  float band[3] = {};  // of the keys at i − 1 … i + 1
  int32_t argmax = 0;
};

// Row t of head h; a value that the call does not have stays 0.
HEADWISE_ROW_HD CoreValues CoreValuesAt(const CoreRows& r, int64_t h,
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

// A row with the names that RowAdder asks for.
struct CoreRow {
  const CoreValues& values;
  bool is_cross = false;
  int64_t i = 0, low = 0, high = 0;
  int32_t argmax = 0;
  float log_of_visible = 0;
  double visible = 0, chance = 0;

  HEADWISE_ROW_HD bool cross() const { return is_cross; }
  HEADWISE_ROW_HD bool sees_first() const { return low == 0; }
  HEADWISE_ROW_HD float log_visible() const { return log_of_visible; }
  HEADWISE_ROW_HD float entropy() const { return values.entropy; }
  HEADWISE_ROW_HD float largest() const { return values.max; }
  HEADWISE_ROW_HD float distance() const { return values.distance; }
  HEADWISE_ROW_HD double first_mass() const { return values.first; }
  HEADWISE_ROW_HD float Share(int k) const { return values.band[k + 1]; }
  HEADWISE_ROW_HD bool Sees(int64_t j) const { return j >= low && j < high; }
};

#ifdef __CUDA_ARCH__
// The column of a slot of the core, which the compiler knows.
template <int kSlot = 0>
HEADWISE_ROW_HD int CoreColumnOf(int slot) {
  if constexpr (kSlot < kSlotOffsets) {
    constexpr int kColumn = kCoreColumnMap.of[kSlot];
    if (kColumn >= 0 && slot == kSlot) return kColumn;
    return CoreColumnOf<kSlot + 1>(slot);
  }
  return 0;
}
#else
inline int CoreColumnOf(int slot) { return kCoreColumnMap.of[slot]; }
#endif

// Sums by the core's columns.
struct CoreColumns {
  double (&sums)[kCoreColumns];

  HEADWISE_ROW_HD void Add(int slot, double value, int rows) const {
    sums[CoreColumnOf(slot)] += value;
    // Numbers share one weight, and so do the forms of the first key.
    if (slot == kCoreNumberSlot) sums[kCoreRows] += rows;
    if (slot == kCoreFirstSlot) sums[kCoreSeesFirst] += rows;
  }
};

// Adds query i of a sequence with `keys` keys, which is row t of the call.
HEADWISE_ROW_HD void AddCoreRow(const CoreRows& r, const CoreValues& v,
                                int64_t t, int64_t i, int64_t keys,
                                double (&sums)[kCoreColumns]) {
  const int64_t low = r.mask_before >= i ? 0 : i - r.mask_before;
  const int64_t high =
      r.mask_after >= keys - 1 - i ? keys : i + r.mask_after + 1;
  const int64_t visible = high - low;
  if (visible < r.least_visible || (i == 0 && !r.cross)) return;
  if (r.special != nullptr && r.special[t] != 0) return;
  if (!IsFinite(v.entropy)) return;
  const auto seen = static_cast<double>(visible);
  const CoreRow row = {
      v,    r.cross, i, low, high, v.argmax, logf(static_cast<float>(visible)),
      seen, 1 / seen};
  CoreColumns columns{sums};
  const RowAdder<CoreColumns> adder{columns};
  adder.AddNumbers<true>(row);
  adder.AddFirst(row);
  if (r.cross) return;
#ifdef __CUDACC__
#pragma unroll
#endif
  for (int k = -1; k <= 1; ++k) {
    if (k < -r.before || k > r.after) continue;
    double* column = sums + CoreOffsetColumn(k);
    AddOffset(row, k, column[0], column[1], column[2], column[3]);
  }
}

}  // namespace headwise
