// The forward of rows that a block can hold: x is read once, and the block
// meets once (for a mean: twice). norm.cu alone includes it.
#pragma once

#include <cstdint>

#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/ops/norm/cuda/held_forward.cuh"
#include "headwise/ops/norm/cuda/params.cuh"
#include "headwise/ops/norm/implementation.h"

namespace headwise::cuda::norm {

inline constexpr int kMostBlockPacks = 4;  // of a thread

// What the kernel will read whoever still writes: only the cache hears of it.
__device__ inline void Fetch(const float* from) {
#if __CUDA_ARCH__ >= 900
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
#endif
}

// BlockSum's numbers in its order; `sums` is used for nothing else.
__device__ inline float SumOnce(float x, float (&sums)[kWarps]) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  x = WarpSum(x);
  if (lane == 0) sums[warp] = x;
  __syncthreads();
  return WarpSum(lane < kWarps ? sums[lane] : 0.0f);
}

// A block a row; a thread has kPacks packs of it, kThreads apart, and adds them
// up as ForwardKernel does: the same numbers.
template <typename T, int kPacks>
__global__ void __launch_bounds__(kThreads) BlockForwardKernel(Params<T> p) {
  constexpr int kN = kPack<T>;
  __shared__ float sums[kWarps], square_sums[kWarps];
  const int width = static_cast<int>(p.width);
  const float n = static_cast<float>(width);
  const auto at = [&](int k) {
    return (static_cast<int>(threadIdx.x) + k * kThreads) * kN;
  };
  LetNextBegin();
  if (p.weight != nullptr) {
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (at(k) < width) Fetch(p.weight + at(k));
    }
  }
  WaitForLast();
  const int64_t row = blockIdx.x;
  const T* x = p.x + p.x_at.Begin(row);
  T* y = p.y + p.y_at.Begin(row);
  T* kept = p.Kept(row);
  float v[kPacks][kN] = {}, weight[kPacks][kN] = {};
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    if (at(k) < width) Load(x + at(k), v[k]);
  }
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    if (p.weight != nullptr && at(k) < width) {
      Load(p.weight + at(k), weight[k]);
    }
  }
  float mean = 0, sum = 0, squares = 0;
  if (p.layer) {
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
#pragma unroll
      for (int j = 0; j < kN; ++j) sum += v[k][j];
    }
    mean = SumOnce(sum, sums) / n;
  }
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    if (at(k) >= width) continue;
#pragma unroll
    for (int j = 0; j < kN; ++j) {
      squares += (v[k][j] - mean) * (v[k][j] - mean);
    }
  }
  const float scale =
      1.0f / sqrtf(SumOnce(squares, square_sums) / n + p.epsilon);
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    if (at(k) >= width) continue;
    float bias[kN];
    if (p.bias != nullptr) Load(p.bias + at(k), bias);
    if (kept != nullptr) Store(v[k], kept + at(k));
#pragma unroll
    for (int j = 0; j < kN; ++j) {
      v[k][j] = (v[k][j] - mean) * scale;
      if (p.weight != nullptr) v[k][j] *= weight[k][j];
      if (p.bias != nullptr) v[k][j] += bias[j];
    }
    Store(v[k], y + at(k));
  }
  if (threadIdx.x != 0) return;
  if (p.layer && p.mean != nullptr) p.mean[row] = mean;
  if (p.scale != nullptr) p.scale[row] = scale;
}

// False, and nothing is done, where a block cannot hold a row.
template <typename T>
bool RunBlockForward(Context& context, const NormCall& call,
                     const Params<T>& p) {
  constexpr int kN = kPack<T>;
  const int64_t packs = CeilDiv(p.width, kThreads * kN);
  if (p.width % kN != 0 || packs > kMostBlockPacks || !InPacks<T>(call)) {
    return false;
  }
  const auto kernel = packs <= 1   ? BlockForwardKernel<T, 1>
                      : packs == 2 ? BlockForwardKernel<T, 2>
                                   : BlockForwardKernel<T, kMostBlockPacks>;
  LaunchEarly(context, "norm", kernel, dim3(static_cast<unsigned>(p.rows)),
              kThreads, p);
  return true;
}

}  // namespace headwise::cuda::norm
