// The plain kernels: every type, width, stride, mask and score, forward with
// all that can be observed, backward, received attention.
#pragma once

#include <cuda_runtime.h>

#include "headwise/ops/attention/cuda/params.h"

namespace headwise::attention_cuda {

// params.forward and params.blocks: in blocks of kPlainRows queries. Without
// `observes` nothing of params but forward is looked at.
void LaunchPlainForward(const ObserveParams& params, bool observes,
                        cudaStream_t stream);

// The backward pass in three: rows (dq, ∂L/∂g, δ), keys (dk, dv, received),
// entries of a relative table.
struct PlainBackwardParams {
  // forward: in blocks of kPlainRows queries; of the scratch nothing is used.
  BackwardParams backward;
  View3<const float> weights;  // [B, M] of received; null: 1
  // Scratch [sequences, heads, query_len] of each row: δ = g·⟨dout, O⟩, the
  // entropy with what a sink took; and where there is a dtable, sums of ∂L/∂z
  // at and past the two ends of the table, [2] each.
  float* delta = nullptr;
  float* entropy = nullptr;
  double* ends = nullptr;
};
void LaunchPlainRows(const PlainBackwardParams& params, cudaStream_t stream);
// After the rows, unless nothing but `received` is asked for.
void LaunchPlainKeys(const PlainBackwardParams& params, cudaStream_t stream);
// After the rows; adds to dtable.
void LaunchPlainTable(const PlainBackwardParams& params, cudaStream_t stream);

}  // namespace headwise::attention_cuda
