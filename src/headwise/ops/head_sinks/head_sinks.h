// Keys that may be sinks of one head: the largest key, outside those that every
// head rests on, of so many of the rows that see them.
#pragma once

#include <cstdint>

#include "headwise/context.h"
#include "headwise/tensor.h"

namespace headwise {

// Keys with at least this mean mass, over the rows that see them, as some row's
// largest. A key of three times that mean mass that is not one would have to
// stand behind another in nearly every row.
inline constexpr double kCandidateMass = 0.1;

// Results of a packed call: B sequences of T queries and S keys in all, H
// heads. Dense.
struct HeadSinksArgs {
  ConstTensorView kept_max = {};      // f32 [1, H, T]
  ConstTensorView kept_argmax = {};   // i32 [1, H, T]; −1: none
  ConstTensorView weights = {};       // f32 [1, T]: rows with 0 do not count
  ConstTensorView seen = {};          // i32 [S]: rows that count and see a key;
                                      // 0: no candidate
  ConstTensorView query_starts = {};  // i32 [B + 1]
  ConstTensorView key_starts = {};    // i32 [B + 1]

  // A candidate: head, sequence, key. In any order; those past M are left out.
  TensorView found = {};  // i32 [M, 3]
  TensorView count = {};  // i32 [1]
};

// Throws Error(kInvalidArgument) naming the view that does not fit.
void FindSinkCandidates(Context& context, const HeadSinksArgs& args);

}  // namespace headwise
