// What the plain backward kernels share: ∂L/∂z of one pair.
#pragma once

#include "headwise/ops/attention/cuda/device/score.cuh"
#include "headwise/ops/attention/cuda/device/sink.cuh"
#include "headwise/ops/attention/cuda/plain/launch.h"
#include "headwise/ops/attention/cuda/plain/tile.cuh"

namespace headwise::attention_cuda::plain {

// What a row brings to each of its pairs. lse −∞: it sees nothing.
struct RowGradient {
  float lse = -INFINITY;
  float gate = 1;
  float delta = 0;     // g·⟨dout, O⟩
  float entropy = 0;   // H, and what a sink took
  float dentropy = 0;  // ∂L/∂H
};

// A pair's probability, and ∂z/∂(scale·s).
struct Pair {
  float log_probability, probability, slope;
};

__device__ inline Pair PairOf(const ForwardParams& f, int head, float s,
                              int ahead, float lse) {
  const Shaped shaped = ShapeScore(f, head, s, ahead);
  const float x = shaped.z - lse;
  return {x, expf(x), shaped.slope};
}

// ∂L/∂z; dp = ⟨dout, v⟩, before the gate.
__device__ inline float ScoreGradient(const RowGradient& row, const Pair& pair,
                                      float dp) {
  const float p = pair.probability;
  if (p == 0) return 0;
  return p * (row.gate * dp - row.delta) -
         row.dentropy * p * (pair.log_probability + row.entropy);
}

// Where the scratch has a row.
__device__ inline int64_t ScratchAt(const BackwardParams& b, int sequence,
                                    int head, int query) {
  return (static_cast<int64_t>(sequence) * b.heads + head) *
             b.forward.query_len +
         query;
}

// A row that counts, from what the forward pass left and, where `scratch`, from
// what the rows' kernel has.
__device__ inline RowGradient ReadRow(const PlainBackwardParams& p,
                                      int sequence, int64_t batch, int head,
                                      int query, int64_t row, bool scratch) {
  const BackwardParams& b = p.backward;
  const ForwardParams& f = b.forward;
  RowGradient g;
  g.lse = static_cast<const float*>(
      f.lse.data)[batch * f.lse.batch + head * f.lse.head + row];
  if (f.gates != nullptr) {
    g.gate =
        f.gates[batch * f.gate_batch + row * f.gate_row + head * f.gate_head];
  }
  if (b.dentropy.data != nullptr) g.dentropy = *b.dentropy.At(batch, head, row);
  if (scratch && p.delta != nullptr) {
    const int64_t at = ScratchAt(b, sequence, head, query);
    g.delta = p.delta[at];
    g.entropy = p.entropy[at];
  }
  return g;
}

}  // namespace headwise::attention_cuda::plain
