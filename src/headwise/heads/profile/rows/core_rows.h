// Sums the core metrics (metrics.h) over the rows of each sequence, on the
// device that holds the rows: a profile of the core copies back a few numbers
// a head and sequence.
#pragma once

#include <cstdint>

#include "headwise/attention.h"
#include "headwise/context.h"
#include "headwise/heads/profile/metrics.h"
#include "headwise/tensor.h"

namespace headwise {

// Columns of the sums: two weights, the slots of the core, and of the offset k
// from −1 to 1 four: rows that see the key, its share, the chance, and rows
// whose largest key it is; none of cross-attention. A row counts where it is
// neither special nor, in self-attention, the first, sees at least min_visible
// keys (and 2), and has a finite entropy.
enum CoreColumn : int { kCoreRows, kCoreSeesFirst, kCoreSlots };
inline constexpr int kOffsetColumns = 4;

struct CoreColumnMap {
  int of[kSlotOffsets] = {};  // by slot; −1: not of the core
  int end = kCoreSlots;
};
inline constexpr CoreColumnMap kCoreColumnMap = [] {
  CoreColumnMap map;
  for (int m = 0; m < kHeadMetricCount; ++m) {
    for (int slot = kFirstSlots.of[m]; slot < kFirstSlots.of[m + 1]; ++slot) {
      map.of[slot] = kHeadMetrics[m].rows.core ? map.end++ : -1;
    }
  }
  return map;
}();
inline constexpr int kCoreOffsets = kCoreColumnMap.end;
inline constexpr int kCoreColumns = kCoreOffsets + 3 * kOffsetColumns;
inline constexpr int kCoreNumberSlot = kFirstSlots.of[MetricAt("entropy")];
inline constexpr int kCoreFirstSlot = kFirstSlots.of[MetricAt("first")];

HEADWISE_ROW_HD constexpr int CoreOffsetColumn(int k) {
  return kCoreOffsets + (k + 1) * kOffsetColumns;
}

struct CoreRowsProblem {
  AttentionMask mask = {};  // query_offset and sinks are left out of account
  bool cross = false;
  int64_t min_visible = 8;
  // The band has key i − before … i + after, at most 1 each.
  int64_t before = 0, after = 0;
  // Queries of the longest sequence; 0: not known.
  int64_t longest = 0;

  friend bool operator==(const CoreRowsProblem&,
                         const CoreRowsProblem&) = default;
};

// Results of a packed call: B sequences of T queries in all, H heads. Dense.
struct CoreRowsArgs {
  ConstTensorView entropy = {};          // f32 [1, H, T]
  ConstTensorView max_probability = {};  // f32 [1, H, T]
  ConstTensorView argmax = {};           // i32 [1, H, T]
  ConstTensorView distance = {};         // f32 [1, H, T]
  ConstTensorView first = {};            // f32 [1, H, T]: mass on the first key
  ConstTensorView band = {};  // f32 [1, H, T, before + after + 1]; cross: null
  ConstTensorView query_starts = {};  // i32 [B + 1]
  ConstTensorView key_starts = {};    // i32 [B + 1]
  ConstTensorView special = {};       // u8 [T]: 1 does not count; may be null
  TensorView sums = {};               // f64 [B, H, kCoreColumns]; overwritten
};

// In an order that does not depend on threads. Throws Error(kInvalidArgument)
// naming the view that does not fit.
void CoreRowSums(Context& context, const CoreRowsProblem& problem,
                 const CoreRowsArgs& args);

}  // namespace headwise
