// What rope.cu and append.cuh, which alone include it, share: turns of tokens
// and what they do to a pack of pairs.
#pragma once

#include <cstdint>

#include "headwise/ops/cuda/kernel.cuh"

namespace headwise::cuda::rope {

// Threads of a block, and the turns that it makes at a time.
inline constexpr int kThreads = 256;

template <typename T>
struct Params {
  float scale;
  float back;  // scale; backward: −scale
  int64_t tokens;
  int heads, half;
  int step, apart;   // of a pair, PairLayout
  int block_tokens;  // tokens of a block
  const float* frequencies;
  DeviceIds positions;
  T* x;
  int64_t token_stride, head_stride;
};

// Pairs [begin, begin + width) of tokens [token, token + count).
struct Part {
  int64_t token;
  int count, begin, width;
};

// turns: cosine and sine of pair i of token t at t · width + i. The angle is an
// f32 product, as elsewhere: at far positions its rounding is what is learnt.
template <typename T>
__device__ void MakeTurns(const Params<T>& p, const Part& part, float* cosine,
                          float* sine) {
  const int at = threadIdx.x;
  if (at >= part.count * part.width) return;
  const auto position =
      static_cast<float>(p.positions.At(part.token + at / part.width));
  const float frequency = p.frequencies[part.begin + at % part.width];
  sincosf(__fmul_rn(position, frequency), sine + at, cosine + at);
  cosine[at] *= p.scale;
  sine[at] *= p.back;
}

// Pairs (x[j], y[j]).
template <int kCount>
__device__ inline void TurnPack(const float* cosine, const float* sine,
                                float (&x)[kCount], float (&y)[kCount]) {
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    const float c = cosine[j], s = sine[j];
    const float from = x[j];
    x[j] = from * c - y[j] * s;
    y[j] = y[j] * c + from * s;
  }
}

}  // namespace headwise::cuda::rope
