// The forward of rows that a warp can hold: x is read once. norm.cu alone
// includes it.
#pragma once

#include <cstdint>

#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/ops/norm/cuda/params.cuh"
#include "headwise/ops/norm/implementation.h"

namespace headwise::cuda::norm {

// A warp a row; a lane has kPacks packs of it, 32 apart.
template <typename T, int kPacks>
__global__ void __launch_bounds__(kThreads) HeldForwardKernel(Params<T> p) {
  Begin();
  constexpr int kN = kPack<T>;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kWarps + warp;
  if (row >= p.rows) return;  // a whole warp at once
  const T* x = p.x + p.x_at.Begin(row);
  T* y = p.y + p.y_at.Begin(row);
  T* kept = p.Kept(row);
  const int width = static_cast<int>(p.width);
  const float n = static_cast<float>(width);
  const auto at = [&](int k) { return (lane + k * kWarp) * kN; };
  float v[kPacks][kN] = {};
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    if (at(k) < width) Load(x + at(k), v[k]);
  }
  float mean = 0, sum = 0, squares = 0;
  if (p.layer) {
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
#pragma unroll
      for (int j = 0; j < kN; ++j) sum += v[k][j];
    }
    mean = WarpSum(sum) / n;
  }
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    if (at(k) >= width) continue;
#pragma unroll
    for (int j = 0; j < kN; ++j) {
      squares += (v[k][j] - mean) * (v[k][j] - mean);
    }
  }
  const float scale = 1.0f / sqrtf(WarpSum(squares) / n + p.epsilon);
#pragma unroll
  for (int k = 0; k < kPacks; ++k) {
    if (at(k) >= width) continue;
    float weight[kN], bias[kN];
    if (p.weight != nullptr) Load(p.weight + at(k), weight);
    if (p.bias != nullptr) Load(p.bias + at(k), bias);
    if (kept != nullptr) Store(v[k], kept + at(k));
#pragma unroll
    for (int j = 0; j < kN; ++j) {
      v[k][j] = (v[k][j] - mean) * scale;
      if (p.weight != nullptr) v[k][j] *= weight[j];
      if (p.bias != nullptr) v[k][j] += bias[j];
    }
    Store(v[k], y + at(k));
  }
  if (lane != 0) return;
  if (p.layer && p.mean != nullptr) p.mean[row] = mean;
  if (p.scale != nullptr) p.scale[row] = scale;
}

// Whether all rows of a forward can be loaded in packs from their beginning on.
template <typename T>
bool InPacks(const NormCall& call) {
  constexpr int kN = kPack<T>;
  const NormArgs& a = call.args;
  return HasPacks(a.x, kN) && HasPacks(a.y, kN) &&
         (!a.kept || HasPacks(a.kept, kN)) &&
         (!a.weight || HasPacks(a.weight, kN)) &&
         (!a.bias || HasPacks(a.bias, kN));
}

// False, and nothing is done, where a warp cannot hold a row.
template <typename T>
bool RunHeldForward(Context& context, const NormCall& call,
                    const Params<T>& p) {
  return InPacks<T>(call) && WithHeldPacks<T>(p.width, [&](auto packs) {
           LaunchEarly(context, "norm",
                       HeldForwardKernel<T, decltype(packs)::value>,
                       dim3(static_cast<unsigned>(CeilDiv(p.rows, kWarps))),
                       kThreads, p);
         });
}

}  // namespace headwise::cuda::norm
