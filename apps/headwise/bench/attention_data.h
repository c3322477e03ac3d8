// The tensors of one attention problem that all candidates share, and the test
// that what a candidate computes is attention before it is timed.
#pragma once

#include <cstdint>
#include <string>

#include "headwise/attention.h"

namespace headwise::bench {

struct AttentionData {
  AttentionProblem problem;
  Tensor q;  // [B, M, H, D]
  Tensor k;  // [B, N, G, D]
  Tensor v;  // [B, N, G, D]
};

// Random values of variance 1, the same for the same problem.
AttentionData MakeAttentionData(const AttentionProblem& problem);

// f32, bf16 or f16; another stream, other values.
void FillRandom(Tensor& tensor, uint64_t stream);

// Largest |out − truth| over sampled rows; truth is a dense softmax in double
// and values are of order 1. out [B, M, H, D].
double AttentionError(const AttentionData& data, const Tensor& out);

// What AttentionError may be before a candidate is refused.
double AttentionTolerance(DType type);

}  // namespace headwise::bench
