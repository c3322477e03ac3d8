// A forward pass of either path, and what follows it.
#pragma once

#include <functional>

#include "headwise/attention.h"
#include "headwise/ops/attention/cuda/arguments.h"

namespace headwise::attention_cuda {

// The pass in blocks of `block` queries by `launch`, or by decoding where
// queries are few; then what is observed beyond the core, unless the pass has
// (gathers_full: it can).
void RunForward(Context& context, const AttentionProblem& problem,
                const AttentionArgs& args, int block, bool gathers_full,
                const std::function<void(const ForwardCall&)>& launch);

}  // namespace headwise::attention_cuda
