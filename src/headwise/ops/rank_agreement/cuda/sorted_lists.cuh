// Lists put in order and ranked, by blocks of one size or another. Only
// rank_agreement.cu includes this.
#pragma once

#include <algorithm>
#include <cfloat>

#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/ops/rank_agreement/tile.h"

namespace headwise::rank_cuda {

__device__ inline double WarpSum(double x) {
  for (int step = cuda::kWarp / 2; step > 0; step /= 2) {
    x += __shfl_xor_sync(0xffffffff, x, step);
  }
  return x;
}

// Over a block of kThreads, in every thread.
template <int kThreads>
__device__ double BlockSum(double x) {
  constexpr int kWarps = kThreads / cuda::kWarp;
  __shared__ double sums[kWarps];
  x = WarpSum(x);
  __syncthreads();  // a sum before this one may still be read
  if (threadIdx.x % cuda::kWarp == 0) sums[threadIdx.x / cuda::kWarp] = x;
  __syncthreads();
  double sum = 0;
  for (int warp = 0; warp < kWarps; ++warp) sum += sums[warp];
  return sum;
}

// What is ranked, and scratch for it.
struct Lists {
  const int32_t* starts;
  int64_t entries, heads;
  // Of an entry: that of a key in [R, H, width], or without keys the entry's.
  const float* values;
  const int32_t* keys;
  int64_t width;
  RankEntry* sorted;  // [H, entries]
};

// The list and head of a block; grid: (R · H, any), where the blocks of a list
// take its tiles in turn.
struct List {
  int64_t r, h, begin;
  int n;
  RankEntry* sorted;

  __device__ explicit List(const Lists& lists)
      : r(blockIdx.x / lists.heads),
        h(blockIdx.x % lists.heads),
        begin(lists.starts[r]),
        n(static_cast<int>(lists.starts[r + 1] - begin)),
        sorted(lists.sorted + h * lists.entries + begin) {}
};

template <int kThreads>
constexpr int kTile = kThreads* kOwnEntries;

template <int kThreads>
__global__ __launch_bounds__(kThreads) void SortKernel(const Lists lists) {
  __shared__ RankEntry tile[kTile<kThreads> + kThreads];
  const List list(lists);
  const int64_t step = int64_t{gridDim.y} * kTile<kThreads>;
  for (int64_t from = int64_t{blockIdx.y} * kTile<kThreads>; from < list.n;
       from += step) {
    const int count =
        static_cast<int>(min(int64_t{kTile<kThreads>}, list.n - from));
    const int filled = (count + kOwnEntries - 1) / kOwnEntries * kOwnEntries;
    const int64_t place = list.begin + from;
    const float* values =
        lists.keys == nullptr
            ? lists.values + place
            : lists.values + (list.r * lists.heads + list.h) * lists.width;
    for (int n = static_cast<int>(threadIdx.x); n < filled; n += kThreads) {
      RankEntry entry = kNoEntry;
      if (n < count) {
        const float value = lists.keys == nullptr
                                ? values[n]
                                : fmaxf(values[lists.keys[place + n]], FLT_MIN);
        entry = EntryOf(value, static_cast<uint32_t>(from + n));
      }
      tile[SlotOf(n)] = entry;
    }
    __syncthreads();
    RankEntry own[kOwnEntries];
    const int first = static_cast<int>(threadIdx.x) * kOwnEntries;
    const auto store = [&] {
#pragma unroll
      for (int n = 0; n < kOwnEntries; ++n) tile[SlotOf(first) + n] = own[n];
    };
    if (first < filled) {
#pragma unroll
      for (int n = 0; n < kOwnEntries; ++n) own[n] = tile[SlotOf(first) + n];
      SortOwn(own);
      store();
    }
    __syncthreads();
    for (int run = kOwnEntries; run < filled; run *= 2) {
      if (first < filled) MergeOwn(tile, filled, run, first, own);
      __syncthreads();  // all have read
      if (first < filled) store();
      __syncthreads();
    }
    for (int n = static_cast<int>(threadIdx.x); n < count; n += kThreads) {
      list.sorted[from + n] = tile[SlotOf(n)];
    }
    __syncthreads();  // the next tile comes
  }
}

// use(i, rank) for the numbers of this block's tiles, each in one thread.
template <int kThreads, typename Use>
__device__ __forceinline__ void ForRanks(const List& list, const Use& use) {
  __shared__ uint32_t tile[kTile<kThreads>];
  const auto in_tile = [&](int64_t from) {
    return static_cast<int>(min(int64_t{kTile<kThreads>}, list.n - from));
  };
  const int64_t step = int64_t{gridDim.y} * kTile<kThreads>;
  for (int64_t from = int64_t{blockIdx.y} * kTile<kThreads>; from < list.n;
       from += step) {
    const int count = in_tile(from);
    RankEntry own[kOwnEntries];
    int counts[kOwnEntries] = {};
#pragma unroll
    for (int e = 0; e < kOwnEntries; ++e) {
      const int n = e * kThreads + static_cast<int>(threadIdx.x);
      own[e] = n < count ? list.sorted[from + n] : kNoEntry;
    }
    for (int64_t other = 0; other < list.n; other += kTile<kThreads>) {
      const int size = in_tile(other), top = TopStep(size);
      __syncthreads();  // the tile before may still be read
      for (int n = static_cast<int>(threadIdx.x); n < size; n += kThreads) {
        tile[n] = KeyOf(list.sorted[other + n]);
      }
      __syncthreads();
#pragma unroll
      for (int e = 0; e < kOwnEntries; ++e) {
        if (own[e] == kNoEntry) continue;
        counts[e] += CountBoth(tile, size, top, KeyOf(own[e]));
      }
    }
#pragma unroll
    for (int e = 0; e < kOwnEntries; ++e) {
      if (own[e] == kNoEntry) continue;
      use(PlaceOf(own[e]), 0.5 * (counts[e] - list.n));
    }
  }
}

// run(Count<threads of a block>, blocks of a list) for lists that may be so
// long; longer ones take longer.
template <typename Run>
void WithBlocks(int64_t longest, const Run& run) {
  constexpr int kFew = 128, kMany = 512;
  constexpr int64_t kMostBlocks = 64;
  if (longest <= kTile<kFew>) return run(cuda::Count<kFew>(), 1);
  const int64_t tiles = cuda::CeilDiv(longest, kTile<kMany>);
  run(cuda::Count<kMany>(), static_cast<int>(std::min(tiles, kMostBlocks)));
}

template <int kThreads>
void Sort(Context& context, const Lists& lists, dim3 grid) {
  cuda::Launch(context, "ranks", SortKernel<kThreads>, grid, kThreads, lists);
}

}  // namespace headwise::rank_cuda
