// Second passes of the CUDA paths. Shapes: include/headwise/observation.h.
#pragma once

#include "headwise/ops/attention/call.h"

namespace headwise::attention_cuda {

// Any. Received attention needs rows aligned to 16 bytes; the others read q and
// k of every type as they lie.
void RunSecondPass(Context& context, const AttentionCall& call);

}  // namespace headwise::attention_cuda
