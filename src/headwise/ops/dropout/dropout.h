// Dropout: each value is kept with probability 1 − rate and then divided by
// it, else it is 0. Which values fall depends on (seed, stream, index) alone,
// so the backward is the same call on the gradient and nothing is kept.
#pragma once

#include <cstdint>

#include "headwise/context.h"

namespace headwise {

struct DropoutMask {
  float rate = 0;       // in [0, 1); 0: every value stays
  uint64_t seed = 0;    // of the run
  uint64_t stream = 0;  // of the step and the place in the model
};

// y [count] = masked x [count]; y may be x.
void Dropout(Context& context, const DropoutMask& mask, int64_t count,
             const float* x, float* y);

}  // namespace headwise
