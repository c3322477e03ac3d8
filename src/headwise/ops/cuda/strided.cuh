// Views of any strides as kernels walk them: few axes, indices of 32 bits where
// they reach, several elements at a time where they lie together. Only .cu
// files include this.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/tensor.h"

namespace headwise::cuda {

// Axes of kViews views of one shape, the last innermost; those that lie end to
// end in all views are one. Steps are in elements.
template <int kViews>
struct Axes {
  int count = 1;
  int64_t shape[kMaxRank] = {1};
  int64_t step[kViews][kMaxRank] = {};

  int64_t size() const {
    int64_t size = 1;
    for (int i = 0; i < count; ++i) size *= shape[i];
    return size;
  }
  // Whether all elements lie together, in all views.
  bool IsOneRun() const {
    for (int v = 0; v < kViews; ++v) {
      if (shape[0] > 1 && step[v][0] != 1) return false;
    }
    return count == 1;
  }
};

// The axes from `first` on.
template <int kViews>
Axes<kViews> AxesOf(const std::array<ConstTensorView, kViews>& views,
                    int first = 0) {
  Axes<kViews> axes;
  int count = 0;
  for (int i = first; i < views[0].rank; ++i) {
    const int64_t size = views[0].shape[i];
    if (size == 1) continue;
    bool joins = count > 0;
    for (int v = 0; v < kViews && joins; ++v) {
      joins = axes.step[v][count - 1] == views[v].stride[i] * size;
    }
    const int64_t before = joins ? axes.shape[count - 1] : 1;
    if (!joins) ++count;
    axes.shape[count - 1] = before * size;
    for (int v = 0; v < kViews; ++v) {
      axes.step[v][count - 1] = views[v].stride[i];
    }
  }
  axes.count = std::max(count, 1);
  if (count == 0) {
    for (int v = 0; v < kViews; ++v) axes.step[v][0] = 1;
  }
  return axes;
}

// `items` elements of the last axis as one, where each view has them together
// (or, if `repeats`, one for all), at addresses that take vectors of them, up
// to 16 bytes. False, and nothing is changed, where that is not so.
template <int kViews>
bool Widen(Axes<kViews>& axes, const std::array<ConstTensorView, kViews>& views,
           int64_t items, bool repeats = false) {
  const int last = axes.count - 1;
  if (axes.shape[last] % items != 0) return false;
  for (int v = 0; v < kViews; ++v) {
    const int64_t size = ElementSize(views[v].type);
    const int64_t align = std::min<int64_t>(16, size * items);
    if (repeats && axes.step[v][last] == 0) continue;
    if (axes.step[v][last] != 1) return false;
    if (reinterpret_cast<uintptr_t>(views[v].data) % align != 0) return false;
    for (int i = 0; i < last; ++i) {
      if (axes.step[v][i] * size % align != 0) return false;
    }
  }
  axes.shape[last] /= items;
  for (int v = 0; v < kViews; ++v) axes.step[v][last] *= items;
  return true;
}

// Where element n of the walk lies in each view.
template <int kViews, typename Index>
__device__ inline void Locate(const Axes<kViews>& axes, Index n,
                              int64_t (&places)[kViews]) {
#pragma unroll
  for (int v = 0; v < kViews; ++v) places[v] = 0;
  for (int i = axes.count - 1; i > 0; --i) {
    const Index size = static_cast<Index>(axes.shape[i]);
    const Index above = n / size, at = n - above * size;
#pragma unroll
    for (int v = 0; v < kViews; ++v) {
      places[v] += static_cast<int64_t>(at) * axes.step[v][i];
    }
    n = above;
  }
#pragma unroll
  for (int v = 0; v < kViews; ++v) {
    places[v] += static_cast<int64_t>(n) * axes.step[v][0];
  }
}

// run(Index{}) with an index type that counts so many: divisions of 64 bits
// take long.
template <typename Run>
void WithIndex(int64_t count, const Run& run) {
  if (count <= std::numeric_limits<int32_t>::max()) {
    run(uint32_t{});
  } else {
    run(int64_t{});
  }
}

// The index of this thread in a grid of one axis.
template <typename Index>
__device__ inline Index ThreadIndex() {
  return static_cast<Index>(blockIdx.x) * static_cast<Index>(blockDim.x) +
         static_cast<Index>(threadIdx.x);
}

// The sum in f64 over a block of whole warps, at most 32 of them, in every
// thread; the same order each time.
__device__ inline double BlockSum64(double x) {
  __shared__ double sums[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const auto warp_sum = [](double value) {
    for (int step = 16; step > 0; step /= 2) {
      value += __shfl_xor_sync(0xffffffff, value, step);
    }
    return value;
  };
  x = warp_sum(x);
  __syncthreads();  // a sum before this one may still be read
  if (lane == 0) sums[warp] = x;
  __syncthreads();
  return warp_sum(lane < static_cast<int>(blockDim.x) / 32 ? sums[lane] : 0.0);
}

}  // namespace headwise::cuda
