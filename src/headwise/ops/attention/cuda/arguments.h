// AttentionProblem and AttentionArgs as the kernels' plain parameters.
#pragma once

#include "headwise/attention.h"
#include "headwise/backend/cuda/device.h"
#include "headwise/observation.h"
#include "headwise/ops/attention/cuda/params.h"

namespace headwise::attention_cuda {

// Parameters and the device memory that they point into.
struct ForwardCall {
  ForwardParams params;
  DeviceBuffer active_heads;
  bool statistics = false;
};
struct BackwardCall {
  BackwardParams params;
  DeviceBuffer active_heads, is_active, lse_log2, delta, d_o;
  ConstTensorView d_o_view;  // [B, M, H, E]: g·dout
};

// Empty, or why no kernel of this folder takes the problem.
std::string WhyNotAny(const AttentionProblem& problem);

// `block`: queries a block. Throws Error(kUnsupported) for what the kernels
// cannot do with these arguments: observations beyond the core statistics,
// rows that are not 16-byte aligned.
ForwardCall MakeForward(Context& context, const AttentionProblem& problem,
                        const AttentionArgs& args, int block);
BackwardCall MakeBackward(Context& context, const AttentionProblem& problem,
                          const AttentionArgs& args,
                          const AttentionGrads& grads, int query_block,
                          int key_block);

}  // namespace headwise::attention_cuda
