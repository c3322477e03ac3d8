// The backward of rows that a warp can hold: x and dy are read once, for dx and
// for the parameters' gradients. norm.cu alone includes it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/ops/norm/cuda/params.cuh"
#include "headwise/ops/norm/implementation.h"
#include "headwise/tensor/temp.h"

namespace headwise::cuda::norm {

// ---- Parameter gradients ----

// Partial sums of them.
inline constexpr int64_t kMostSums = 256;

// sums [2, count, width], of weights and biases: added up, count by count in
// one order, and to the gradients (null: not wanted).
__global__ inline void AddSumsKernel(const float* sums, int64_t count,
                                     int64_t width, float* dweight,
                                     float* dbias) {
  __shared__ float parts[kWarps][kWarp];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kWarp + lane;
  const float* from = sums + blockIdx.y * count * width;
  float* to = blockIdx.y == 0 ? dweight : dbias;
  if (to == nullptr) return;
  float sum = 0;
#pragma unroll 8
  for (int64_t n = warp; n < count; n += kWarps) {
    sum += column < width ? from[n * width + column] : 0.0f;
  }
  parts[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || column >= width) return;
  for (int w = 1; w < kWarps; ++w) sum += parts[w][lane];
  to[column] += sum;
}

inline void AddSums(Context& context, const float* sums, int64_t count,
                    int64_t width, const NormGrads& grads) {
  Launch(context, "norm parameters", AddSumsKernel,
         dim3(static_cast<unsigned>(CeilDiv(width, kWarp)), 2), kThreads, sums,
         count, width, grads.dweight.Raw<float>(), grads.dbias.Raw<float>());
}

// ---- One pass ----

// Rows `rows_per_sum` a block, every eighth a warp's; a lane has kPacks packs
// of a row, 32 apart. sums [2, gridDim.x, width] get the block's share of
// dweight and dbias, the warps' added in order; null: not wanted.
template <typename T, int kPacks>
__global__ void __launch_bounds__(kThreads, 2)
    OnePassKernel(Params<T> p, int64_t rows_per_sum, float* sums) {
  constexpr int kN = kPack<T>;
  __shared__ float shared[2][kWarp * kPacks * kN];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int64_t begin = blockIdx.x * rows_per_sum;
  const int64_t end = min(begin + rows_per_sum, p.rows);
  const float n = static_cast<float>(p.width);
  const auto at = [&](int k) { return (lane + k * kWarp) * kN; };
  float dweight[kPacks][kN] = {}, dbias[kPacks][kN] = {};
  for (int64_t row = begin + warp; row < end; row += kWarps) {
    const T* x = p.x + p.x_at.Begin(row);
    const T* dy = p.dy + p.dy_at.Begin(row);
    const T* added = p.Added(row);
    T* dx = p.dx + p.dx_at.Begin(row);
    const float mean = p.layer ? p.mean[row] : 0.0f, scale = p.scale[row];
    float unit[kPacks][kN] = {}, inner[kPacks][kN] = {};
    Pack<T, kN> around[kPacks] = {};
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (at(k) >= p.width) continue;
      Load(x + at(k), unit[k]);
      Load(dy + at(k), inner[k]);
      if (added != nullptr) {
        around[k] = *reinterpret_cast<const Pack<T, kN>*>(added + at(k));
      }
    }
    float sum = 0, dot = 0;
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (at(k) >= p.width) continue;
      float weight[kN];
      if (p.weight != nullptr) Load(p.weight + at(k), weight);
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        unit[k][j] = (unit[k][j] - mean) * scale;
        dweight[k][j] += inner[k][j] * unit[k][j];
        dbias[k][j] += inner[k][j];
        if (p.weight != nullptr) inner[k][j] *= weight[j];
        sum += inner[k][j];
        dot += inner[k][j] * unit[k][j];
      }
    }
    const float mean_inner = p.layer ? WarpSum(sum) / n : 0.0f;
    const float mean_dot = WarpSum(dot) / n;
#pragma unroll
    for (int k = 0; k < kPacks; ++k) {
      if (at(k) >= p.width) continue;
#pragma unroll
      for (int j = 0; j < kN; ++j) {
        inner[k][j] =
            scale * (inner[k][j] - mean_inner - unit[k][j] * mean_dot);
        if (added != nullptr) inner[k][j] += ToFloat(around[k].at[j]);
      }
      Store(inner[k], dx + at(k));
    }
  }
  if (sums == nullptr) return;
  for (int w = 0; w < kWarps; ++w) {
    if (warp == w) {
#pragma unroll
      for (int k = 0; k < kPacks; ++k) {
#pragma unroll
        for (int j = 0; j < kN; ++j) {
          float& of_weight = shared[0][at(k) + j];
          float& of_bias = shared[1][at(k) + j];
          of_weight = w == 0 ? dweight[k][j] : of_weight + dweight[k][j];
          of_bias = w == 0 ? dbias[k][j] : of_bias + dbias[k][j];
        }
      }
    }
    __syncthreads();
  }
  for (int64_t i = threadIdx.x; i < 2 * p.width; i += kThreads) {
    const int64_t which = i / p.width, column = i - which * p.width;
    sums[(which * gridDim.x + blockIdx.x) * p.width + column] =
        shared[which][column];
  }
}

template <typename T, int kPacks>
void LaunchOnePass(Context& context, const Params<T>& p,
                   const NormGrads& grads) {
  constexpr int64_t kLeastRows = 2 * kWarps;
  const int64_t rows_per_sum = std::max(kLeastRows, CeilDiv(p.rows, kMostSums));
  const int64_t count = CeilDiv(p.rows, rows_per_sum);
  const bool wanted = grads.dweight || grads.dbias;
  Temp memory;
  if (wanted) memory = Temp(context, DType::kF32, {2, count, p.width});
  float* sums = memory.view().Raw<float>();
  Launch(context, "norm backward", OnePassKernel<T, kPacks>,
         dim3(static_cast<unsigned>(count)), kThreads, p, rows_per_sum, sums);
  if (wanted) AddSums(context, sums, count, p.width, grads);
}

// False, and nothing is done, where a warp cannot hold a row.
template <typename T>
bool RunInOnePass(Context& context, const NormCall& call, const Params<T>& p) {
  constexpr int kN = kPack<T>;
  const NormGrads& grads = *call.grads;
  const bool in_packs = HasPacks(call.args.x, kN) && HasPacks(grads.dy, kN) &&
                        HasPacks(grads.dx, kN) &&
                        (!grads.added || HasPacks(grads.added, kN)) &&
                        (!call.args.weight || HasPacks(call.args.weight, kN));
  return in_packs && WithHeldPacks<T>(p.width, [&](auto packs) {
           LaunchOnePass<T, decltype(packs)::value>(context, p, grads);
         });
}

}  // namespace headwise::cuda::norm
