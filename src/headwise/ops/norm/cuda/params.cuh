// What the kernels of norm.cu share; it and the headers beside this one alone
// include it.
#pragma once

#include <cstdint>

#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/tensor.h"

namespace headwise::cuda::norm {

inline constexpr int kThreads = 256, kWarps = kThreads / kWarp;
// Elements of a row that one lane may hold.
inline constexpr int kMostHeld = 32;

// run(Count<packs>()) with the packs of a row that a lane has, 32 apart; false,
// and nothing is run, where a warp cannot hold a row.
template <typename T, typename Run>
bool WithHeldPacks(int64_t width, const Run& run) {
  constexpr int kN = kPack<T>;
  if (width % kN != 0 || width > kWarp * kMostHeld) return false;
  switch (CeilDiv(width, kWarp * kN)) {
    case 1:
      run(Count<1>());
      return true;
    case 2:
      run(Count<2>());
      return true;
    case 3:
      run(Count<3>());
      return true;
    case 4:
      run(Count<4>());
      return true;
    default:  // f32 of more than 512 columns
      run(Count<kMostHeld / kN>());
      return true;
  }
}

// Where segments of a view such as x begin.
struct Segments {
  int64_t per_row = 1;
  int64_t row_stride = 0;
  int64_t segment_stride = 0;

  __device__ int64_t Begin(int64_t row) const {
    if (per_row == 1) return row * row_stride;  // divisions take long
    return row / per_row * row_stride + row % per_row * segment_stride;
  }
};
template <typename Void>
Segments SegmentsOf(const BasicView<Void>& view) {
  return {view.rank == 3 ? view.shape[1] : 1, view.stride[0],
          view.rank == 3 ? view.stride[1] : 0};
}

// Shared by all kernels; a null pointer is not given.
template <typename T>
struct Params {
  bool layer = false;
  float epsilon = 0;
  int64_t rows = 0, width = 0;
  const T* x = nullptr;
  const float *weight = nullptr, *bias = nullptr;
  T *y = nullptr, *kept = nullptr;
  float *mean = nullptr, *scale = nullptr;
  const T *dy = nullptr, *added = nullptr;
  T* dx = nullptr;
  Segments x_at, y_at, kept_at, dy_at, added_at, dx_at;

  // Of a row; null where they are not given.
  __device__ T* Kept(int64_t row) const {
    return kept == nullptr ? nullptr : kept + kept_at.Begin(row);
  }
  __device__ const T* Added(int64_t row) const {
    return added == nullptr ? nullptr : added + added_at.Begin(row);
  }
};

}  // namespace headwise::cuda::norm
