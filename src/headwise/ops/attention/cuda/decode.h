// Decoding steps of either path: a few queries against a long cache.
#pragma once

#include "headwise/attention.h"
#include "headwise/ops/attention/cuda/arguments.h"

namespace headwise::attention_cuda {

// Whether RunDecode takes the problem.
bool IsDecoding(const AttentionProblem& problem);

void RunDecode(Context& context, const AttentionProblem& problem,
               const AttentionArgs& args, const ForwardCall& call);

}  // namespace headwise::attention_cuda
