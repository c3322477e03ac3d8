// Second passes of both CUDA paths. Shapes: include/headwise/observation.h.
#pragma once

#include "headwise/ops/attention/call.h"

namespace headwise::attention_cuda {

// Any but the band, which why_not.h refuses.
void RunSecondPass(Context& context, const AttentionCall& call);

}  // namespace headwise::attention_cuda
