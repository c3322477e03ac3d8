// What the core metrics of heads are made of, added up over the rows of each
// sequence where the rows lie: a profile of a run on a device then takes home a
// few numbers a head and sequence.
#pragma once

#include <cstdint>

#include "headwise/attention.h"
#include "headwise/context.h"
#include "headwise/tensor.h"

namespace headwise {

// Columns of the sums. A row counts where it is neither special nor, in
// self-attention, the first, sees at least min_visible keys (and 2), and has a
// finite entropy.
enum CoreColumn : int {
  kCoreRows,        // rows that count
  kCoreEntropy,     // Σ H
  kCoreNormalised,  // Σ H / ln(visible keys)
  kCoreBroad,       // rows with H / ln(visible keys) > 0.8
  kCoreMax,
  kCoreDistance,        // not of cross-attention,
  kCoreArgmaxDistance,  // nor this
  kCoreSeesFirst,       // rows that see the first key
  kCoreFirst,           // their mass on it
  kCoreFirstChance,     // Σ 1 / visible keys
  kCoreFirstArgmax,     // those whose largest key it is
  // Of the offset k from −1 to 1, from kCoreOffsets + (k + 1) · kOffsetColumns
  // on: the same four of the key at i + k, where it is seen; not of
  // cross-attention.
  kCoreOffsets,
  kCoreColumns = kCoreOffsets + 12,
};
inline constexpr int kOffsetColumns = 4;

struct HeadCoreProblem {
  AttentionMask mask = {};  // query_offset and sinks are left out of account
  bool cross = false;
  int64_t min_visible = 8;
  // Of the band: key i − before … i + after, at most 1 each.
  int64_t before = 0, after = 0;
  // Queries of the longest sequence; 0: not known.
  int64_t longest = 0;

  friend bool operator==(const HeadCoreProblem&,
                         const HeadCoreProblem&) = default;
};

// Results of a packed call: B sequences of T queries in all, H heads. Dense.
struct HeadCoreArgs {
  ConstTensorView entropy = {};          // f32 [1, H, T]
  ConstTensorView max_probability = {};  // f32 [1, H, T]
  ConstTensorView argmax = {};           // i32 [1, H, T]
  ConstTensorView distance = {};         // f32 [1, H, T]
  ConstTensorView first = {};            // f32 [1, H, T] (AttentionBand)
  ConstTensorView band = {};  // f32 [1, H, T, before + after + 1]; cross: null
  ConstTensorView query_starts = {};  // i32 [B + 1]
  ConstTensorView key_starts = {};    // i32 [B + 1]
  ConstTensorView special = {};       // u8 [T]: 1 does not count; may be null
  TensorView sums = {};               // f64 [B, H, kCoreColumns]; overwritten
};

// In an order that does not depend on threads. Throws Error(kInvalidArgument)
// naming the view that does not fit.
void HeadCoreSums(Context& context, const HeadCoreProblem& problem,
                  const HeadCoreArgs& args);

}  // namespace headwise
