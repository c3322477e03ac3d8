// What kernels of the small operators share: element types, sums over a warp
// or a block in one order, launches. Only .cu files include this.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "headwise/backend/cuda/backend.h"
#include "headwise/error.h"
#include "headwise/tensor.h"

namespace headwise::cuda {

inline constexpr int kWarp = 32;

// Kernels calculate in f32 whatever their views hold.
__device__ inline float ToFloat(float x) { return x; }
__device__ inline float ToFloat(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float ToFloat(__half x) { return __half2float(x); }

template <typename T>
__device__ T FromFloat(float x) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(x);
  } else if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(x);
  } else {
    return x;
  }
}

// run(T{}) with T the element type of a view of floats.
template <typename Run>
void WithFloatType(DType type, const Run& run) {
  switch (type) {
    case DType::kF32:
      return run(float{});
    case DType::kBF16:
      return run(__nv_bfloat16{});
    case DType::kF16:
      return run(__half{});
    default:
      throw Error(ErrorCode::kInternal,
                  {"cuda", "f32, bf16 or f16", Name(type), ""});
  }
}

// The sum over a warp, in every lane of it; the same order each time.
__device__ inline float WarpSum(float x) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    x += __shfl_xor_sync(0xffffffff, x, step);
  }
  return x;
}

// The sum over a block of whole warps, at most 32 of them, in every thread.
__device__ inline float BlockSum(float x) {
  __shared__ float sums[kWarp];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  x = WarpSum(x);
  __syncthreads();  // a sum before this one may still be read
  if (lane == 0) sums[warp] = x;
  __syncthreads();
  const int warps = blockDim.x / kWarp;
  return WarpSum(lane < warps ? sums[lane] : 0.0f);
}

inline int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// kernel<<<grid, threads>>>(params…) on the context's queue; `where` names it
// in the error if the launch fails.
template <class... Params>
void Launch(Context& context, const char* where, void (*kernel)(Params...),
            dim3 grid, int threads,
            const std::type_identity_t<Params>&... params) {
  kernel<<<grid, threads, 0, StreamOf(context)>>>(params...);
  CheckCuda(cudaGetLastError(), where);
}

}  // namespace headwise::cuda
