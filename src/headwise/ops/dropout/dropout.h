// Dropout: each value is kept with probability 1 − rate and then divided by
// it, else it is 0. Which values fall depends on (seed, stream, index) alone,
// so the backward is the same call on the gradient and nothing is kept.
#pragma once

#include <cstdint>

#include "headwise/context.h"
#include "headwise/tensor.h"

namespace headwise {

// Value n, counted in row-major order, falls where word n mod 4 of block ⌊n/4⌋
// of Philox (base/rng.h) is below rate · 2³², with the rate in 65536ths.
struct DropoutMask {
  float rate = 0;       // in [0, 1); 0: every value stays
  uint64_t seed = 0;    // of the run
  uint64_t stream = 0;  // of the step and the place in the model

  friend bool operator==(const DropoutMask&, const DropoutMask&) = default;
};

// Both [R, W] of one type, with a last stride of 1.
struct DropoutArgs {
  ConstTensorView x = {};
  TensorView y = {};  // masked x; may be x
};

// Throws Error(kInvalidArgument) naming the view that does not fit.
void Dropout(Context& context, const DropoutMask& mask,
             const DropoutArgs& args);

}  // namespace headwise
