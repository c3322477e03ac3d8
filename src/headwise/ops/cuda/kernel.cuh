// What kernels of the small operators share: element types, sums over a warp
// or a block in one order, launches. Only .cu files include this.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
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

// 16 bytes that this kernel does not write and needs once.
__device__ inline uint4 LoadOnce(const void* from) {
  uint4 value;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "l"(from));
  return value;
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

// ---- Kernels that begin early ----
//
// What a kernel costs before its first load is as long as the work of a small
// one. In recorded work (Hopper and later) a kernel that LaunchEarly asks for
// is put on the chip when the blocks of the one before it are all there, and
// waits itself: every thread of it calls WaitForLast before it touches what
// another kernel writes or reads.

// Returns when all kernels before this one are done and what they wrote shows.
__device__ inline void WaitForLast() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// The next kernel may be put on the chip beside this one.
__device__ inline void LetNextBegin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
// At the top of a kernel that has nothing to do before it waits. The next one
// comes to wait at once; it cannot pass, since this one ends after it has
// waited itself.
__device__ inline void Begin() {
  LetNextBegin();
  WaitForLast();
}

// As Launch.
template <class... Params>
void LaunchEarly(Context& context, const char* where, void (*kernel)(Params...),
                 dim3 grid, int threads,
                 const std::type_identity_t<Params>&... params) {
  CudaBackend& backend = CudaOf(context);
  if (!backend.recording() ||
      !CanBeginEarly(reinterpret_cast<const void*>(kernel))) {
    return Launch(context, where, kernel, grid, threads, params...);
  }
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = backend.stream();
  config.attrs = &early;
  config.numAttrs = 1;
  CheckCuda(cudaLaunchKernelEx(&config, kernel, params...), where);
}

// ---- Wide loads ----

// N elements that one thread loads or stores at once, 16 bytes at a time.
template <typename T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
  T at[N];
};
// Elements of 16 bytes, of the wider of the types.
template <typename... T>
inline constexpr int kPack = 16 / std::max({sizeof(T)...});

template <int N, typename T>
__device__ void Load(const T* from, float (&to)[N]) {
  const Pack<T, N> pack = *reinterpret_cast<const Pack<T, N>*>(from);
#pragma unroll
  for (int j = 0; j < N; ++j) to[j] = ToFloat(pack.at[j]);
}
template <int N, typename T>
__device__ void Store(const float (&from)[N], T* to) {
  Pack<T, N> pack;
#pragma unroll
  for (int j = 0; j < N; ++j) pack.at[j] = FromFloat<T>(from[j]);
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

// A number as a type: lambdas make arrays of it.
template <int N>
struct Count {
  static constexpr int value = N;
};

// How many of a row's elements come before the first pack that can be loaded
// from every row; all of them where the rows do not lie alike. Null rows do not
// count; the first row is given and has the narrowest elements.
template <int N, typename T, typename... Rest>
__device__ int64_t Lead(int64_t width, const T* row, const Rest*... rest) {
  const auto place =
      static_cast<int64_t>(reinterpret_cast<uintptr_t>(row) / sizeof(T) % N);
  const int64_t lead = place == 0 ? 0 : N - place;
  const bool alike =
      ((rest == nullptr ||
        reinterpret_cast<uintptr_t>(rest + lead) % alignof(Pack<Rest, N>) ==
            0) &&
       ...);
  return alike && lead < width ? lead : width;
}

// The share of thread `first` of `step` in a row: run(i, Count<N>) for packs of
// N elements, run(i, Count<1>) for those before and behind them. All rows that
// run loads from or stores to are given, as Lead takes them.
template <int N, typename Run, typename... T>
__device__ void ForPacks(int64_t first, int64_t step, int64_t width,
                         const Run& run, const T*... rows) {
  const int64_t lead = Lead<N>(width, rows...);
  const int64_t packs = (width - lead) / N;
  for (int64_t p = first; p < packs; p += step) run(lead + p * N, Count<N>());
  for (int64_t i = first; i < width - packs * N; i += step) {
    run(i < lead ? i : i + packs * N, Count<1>());
  }
}

// Whether every row of a view can be loaded in packs from its beginning on.
template <typename Void>
bool HasPacks(const BasicView<Void>& view, int pack) {
  const size_t bytes = std::min<int64_t>(16, pack * ElementSize(view.type));
  if (reinterpret_cast<uintptr_t>(view.data) % bytes != 0) return false;
  for (int axis = 0; axis + 1 < view.rank; ++axis) {
    if (view.shape[axis] > 1 && view.stride[axis] * ElementSize(view.type) %
                                        static_cast<int64_t>(bytes) !=
                                    0) {
      return false;
    }
  }
  return true;
}

// Whether the rows of all these [R, W], the absent ones left out, lie end to
// end: one row of R · W then.
inline bool AreDense(std::initializer_list<ConstTensorView> views) {
  for (const ConstTensorView& view : views) {
    if (view && view.shape[0] > 1 && view.stride[0] != view.shape[1]) {
      return false;
    }
  }
  return true;
}

// How rows are shared out for pointwise work: so many blocks to each that a
// thread has a pack.
struct RowShare {
  int64_t rows = 0, width = 0;
  int64_t blocks = 1;  // of one row
  int threads = kWarp;

  RowShare(int64_t row_count, int64_t row_width, int pack)
      : rows(row_count), width(row_width) {
    constexpr int64_t kMostThreads = 256;
    const int64_t packs = CeilDiv(width, pack);
    blocks = std::max<int64_t>(1, CeilDiv(packs, kMostThreads));
    const int64_t warps = CeilDiv(CeilDiv(packs, blocks), kWarp);
    threads = static_cast<int>(std::max<int64_t>(1, warps) * kWarp);
  }
  dim3 Grid() const {
    const int64_t most = std::numeric_limits<int32_t>::max();
    return dim3(static_cast<unsigned>(std::min(rows * blocks, most)));
  }
  // run(row, first, step): this thread's place in a row, as ForPacks takes it.
  template <typename Run>
  __device__ void ForRows(const Run& run) const {
    for (int64_t n = blockIdx.x; n < rows * blocks; n += gridDim.x) {
      run(n / blocks, n % blocks * blockDim.x + threadIdx.x,
          blocks * blockDim.x);
    }
  }
};

// ---- Further ----

// The largest over a block of whole warps, at most 32 of them, in every thread.
__device__ inline float BlockMax(float x) {
  __shared__ float tops[kWarp];
  const auto over_warp = [](float top) {
    for (int step = kWarp / 2; step > 0; step /= 2) {
      top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, step));
    }
    return top;
  };
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  x = over_warp(x);
  __syncthreads();  // one before this may still be read
  if (lane == 0) tops[warp] = x;
  __syncthreads();
  return over_warp(tops[lane < blockDim.x / kWarp ? lane : 0]);
}

// Ids i32 or i64 [N] on the device (ops/ids.h).
struct DeviceIds {
  const void* data = nullptr;
  bool is_wide = false;

  explicit DeviceIds(const ConstTensorView& ids)
      : data(ids.data), is_wide(ids.type == DType::kI64) {}
  __device__ int64_t At(int64_t n) const {
    return is_wide ? static_cast<const int64_t*>(data)[n]
                   : static_cast<const int32_t*>(data)[n];
  }
};

}  // namespace headwise::cuda
