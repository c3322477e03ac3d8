// The streaming forward of cpu.f32 (f32.cc).
#pragma once

#include "headwise/attention.h"

namespace headwise {

void ForwardF32(Context& context, const AttentionProblem& problem,
                const AttentionArgs& args);

}  // namespace headwise
