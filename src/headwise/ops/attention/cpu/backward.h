// cpu.f32's backward pass. Shapes: include/headwise/attention.h; work split and
// measurements: ../README.md.
#pragma once

#include "headwise/attention.h"
#include "headwise/context.h"

namespace headwise {

void BackwardF32(Context& context, const AttentionProblem& problem,
                 const AttentionArgs& args, const AttentionGrads& grads);

}  // namespace headwise
