// AttentionProblem and AttentionArgs as the kernels' plain parameters.
#pragma once

#include "headwise/attention.h"
#include "headwise/backend/cuda/backend.h"
#include "headwise/ops/attention/cuda/observation.h"
#include "headwise/ops/attention/cuda/params.h"

namespace headwise::attention_cuda {

// Parameters and the device memory that they point into.
struct ForwardCall {
  ForwardParams params;
  DeviceBuffer active_heads;
  // What the forward kernel has to gather; more than the core only where it
  // can: then by observation.observe, whose forward is params.
  Statistics gathered = Statistics::kNone;
  ObservationCall observation;
};
struct BackwardCall {
  BackwardParams params;
  DeviceBuffer active_heads, is_active, lse_log2, delta, d_o;
  DeviceBuffer log_weight, tables;
  ConstTensorView d_o_view;  // [B, M, H, E]: g·dout
};

// What scores are made of, and the LSE; blocks of the order are not set.
// Returns the memory of the list of heads.
DeviceBuffer ScoreInputs(Context& context, const AttentionProblem& problem,
                         const AttentionArgs& args, ForwardParams& params);

// One byte a head, 1 where active; empty where all are.
DeviceBuffer ActiveFlags(const AttentionProblem& problem,
                         const AttentionArgs& args, cudaStream_t stream);

// block: queries a work item; gathers_full: the kernel can gather more than the
// core.
ForwardCall MakeForward(Context& context, const AttentionProblem& problem,
                        const AttentionArgs& args, int block,
                        bool gathers_full);

// Views and sizes of a backward call beside p.forward; no scratch.
void BackwardViews(const AttentionProblem& problem, const AttentionArgs& args,
                   const AttentionGrads& grads, BackwardParams& p);

// The gradient of sink logits by δ as the fast paths keep it.
SinkGradientParams SinkGradient(const BackwardParams& p);

BackwardCall MakeBackward(Context& context, const AttentionProblem& problem,
                          const AttentionArgs& args,
                          const AttentionGrads& grads, int query_block,
                          int key_block);

}  // namespace headwise::attention_cuda
