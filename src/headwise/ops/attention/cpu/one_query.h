// The forward of cpu.f32 for one query a head and nothing but its output: what
// a token costs in every layer while text is generated.
#pragma once

#include "headwise/attention.h"
#include "headwise/context.h"

namespace headwise {

// Whether this call was one of those, and was run.
bool OneQueryF32(Context& context, const AttentionProblem& problem,
                 const AttentionArgs& args);

}  // namespace headwise
