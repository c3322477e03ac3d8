// Soft caps and biases: what scores go through besides the scale.
#pragma once

#include <type_traits>

#include "headwise/ops/attention/cuda/device/softmax.cuh"
#include "headwise/ops/attention/cuda/params.h"

namespace headwise::attention_cuda {

// z of one score in nats (or what follows from it), and dz / d(scale · s).
struct Shaped {
  float z, slope;
};

// ahead: the query's position minus the key's.
__device__ inline Shaped ShapeScore(const ForwardParams& p, int head, float s,
                                    int ahead) {
  const ScoreShape& shape = p.shape;
  Shaped r{s * p.scale, 1};
  if (shape.soft_cap != 0) {
    const float t = tanhf(r.z / shape.soft_cap);
    r.z = shape.soft_cap * t;
    r.slope = 1 - t * t;
  }
  if (shape.alibi != nullptr) {
    r.z -= shape.alibi[head * shape.alibi_head] * abs(ahead);
  }
  if (shape.table != nullptr) {
    const int at = Min(Max(-ahead, -shape.reach), shape.reach) + shape.reach;
    r.z += shape.table[head * shape.table_head + at];
  }
  return r;
}

// Row r of a tile held as softmax.cuh describes, brought back to where the
// scale alone would make z of it. ahead: of the thread's first key.
template <int kCount>
__device__ inline void ShapeRow(const ForwardParams& p, int head,
                                float (&s)[kCount], int r, int ahead) {
#pragma unroll
  for (int k = 0; k < kCount / 4; ++k) {
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      float& x = s[4 * k + 2 * r + b];
      x = ShapeScore(p, head, x, ahead - (8 * k + b)).z / p.scale;
    }
  }
}

// Calls run(std::bool_constant) with whether scores are shaped, so that loops
// over a tile need not ask at every score.
template <class Run>
__device__ inline void WithShape(const ForwardParams& p, Run run) {
  if (p.shape.any()) {
    run(std::true_type());
  } else {
    run(std::false_type());
  }
}

// The base-2 logarithm of a score's probability, given the row's LSE in base 2,
// and dz / d(scale·s).
template <bool kShaped>
__device__ inline Shaped LogProbabilityOf(const ForwardParams& p, int head,
                                          float s, int ahead, float lse) {
  if (!kShaped) return {fmaf(s, p.scale_log2, -lse), 1};
  const Shaped r = ShapeScore(p, head, s, ahead);
  return {fmaf(r.z, 1 / kLn2, -lse), r.slope};
}

// The probability itself, and the same slope.
template <bool kShaped>
__device__ inline Shaped ProbabilityOf(const ForwardParams& p, int head,
                                       float s, int ahead, float lse) {
  const Shaped x = LogProbabilityOf<kShaped>(p, head, s, ahead, lse);
  return {Exp2(x.z), x.slope};
}

}  // namespace headwise::attention_cuda
