// The shape of the Hopper forward kernel: tiles, registers, shared memory.
#pragma once

#include <type_traits>

#include "headwise/observation.h"
#include "headwise/ops/attention/cuda/device/task.cuh"
#include "headwise/ops/attention/cuda/sm90/ptx.cuh"

namespace headwise::attention_cuda::sm90 {

// Scores (kN / 2), probabilities (kN / 4) and output (kDim / 2) of a warpgroup
// are in registers: with 64 columns three warpgroups fit beside the copying
// one, with 128 two.
template <class Element, int kHeadDim, Statistics kGathered>
struct Config {
  using T = Element;
  static constexpr int kDim = kHeadDim;
  static constexpr bool kStatistics = kGathered != Statistics::kNone;
  static constexpr bool kFull = kGathered == Statistics::kFull;
  using Params = std::conditional_t<kFull, ObserveParams, ForwardParams>;
  static constexpr int kGroups = ComputeGroups(kHeadDim);
  static constexpr int kM = 64 * kGroups;           // queries a block
  static constexpr int kN = ForwardKeyTile(kFull);  // keys a tile
  static constexpr int kStages = ForwardStages(kHeadDim, kFull);
  static constexpr bool kUnder = SoftmaxUnderProduct(kHeadDim, kN, kStatistics);
  static constexpr bool kThreeWay = ThreeWayMaxima(kHeadDim);
  static constexpr int kThreads = 128 * (kGroups + 1);
  // 65 536 registers over the warpgroups, the copying one getting what is left.
  static constexpr int kComputeRegisters = kGroups == 2 ? 232 : 160;
  static constexpr int kCopyRegisters = kGroups == 2 ? 40 : 32;
  static constexpr int kBlocks = kDim / 64;  // 128-byte column blocks
  // With statistics the values have 8 columns more: 1 and the key's number in
  // its tile, so that Σe and Σe·j cost the matrix unit an eighth (a sixteenth)
  // and the warps nothing. They stand where the block after the values' last
  // would: one tile serves all stages of a single block, two need one each.
  static constexpr int kCounting = !kStatistics   ? 0
                                   : kBlocks == 1 ? 1
                                                  : kStages;
  // Bytes from a column block of stage s to the next.
  static constexpr __device__ int Lead(int s) {
    return (kBlocks == 1 ? kStages - s : kStages) * kN * 128;
  }
};

// A ring position and the parity its barriers will complete with.
template <int kCount>
struct Ring {
  int index = 0;
  uint32_t parity = 0;
  __device__ void Next() {
    if (++index == kCount) {
      index = 0;
      parity ^= 1;
    }
  }
};

// With the full statistics, of each row its distance histogram (histogram.cuh)
// and what it counts in sums.
template <class C>
struct ObservedShared {
  float histogram[C::kM][kBuckets];
  float weight[C::kM];
};
struct NothingShared {};

template <class C>
struct Shared {
  alignas(1024) typename C::T q[2][C::kBlocks][C::kM][64];
  alignas(1024) typename C::T k[C::kStages][C::kBlocks][C::kN][64];
  alignas(1024) typename C::T v[C::kBlocks][C::kStages][C::kN][64];
  alignas(1024) typename C::T counting[C::kCounting > 0 ? C::kCounting : 1]
                                      [C::kCounting > 0 ? C::kN : 8][64];
  uint64_t q_full[2];
  uint64_t k_full[C::kStages], k_empty[C::kStages];
  uint64_t v_full[C::kStages], v_empty[C::kStages];
  uint64_t task_full[2], task_empty[2];
  Task task[2];
  uint32_t tag_mask;
  std::conditional_t<C::kFull, ObservedShared<C>, NothingShared> observed;
};

// One lane's reading, so that the compiler knows it for the same in all: what
// follows from it then takes no vector registers.
__device__ inline int Uniform(int value) { return __shfl_sync(~0u, value, 0); }

// This thread's first row of its warpgroup's 64; the second is 8 below.
__device__ inline int RowInGroup() {
  return threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
}

__device__ inline void WarpArrive(uint64_t* barrier) {
  if (threadIdx.x % 32 == 0) BarrierArrive(barrier);
}

// By one thread.
template <class C>
__device__ inline void InitBarriers(Shared<C>& shared) {
  const int warps = 4 * C::kGroups;
  for (int s = 0; s < C::kStages; ++s) {
    BarrierInit(&shared.k_full[s], 1);
    BarrierInit(&shared.k_empty[s], warps);
    BarrierInit(&shared.v_full[s], 1);
    BarrierInit(&shared.v_empty[s], warps);
  }
  for (int s = 0; s < 2; ++s) {
    BarrierInit(&shared.q_full[s], 1);
    BarrierInit(&shared.task_full[s], 1);
    BarrierInit(&shared.task_empty[s], warps);
  }
  FenceBarrierInit();
}

// The 8 columns that count: see Config. All threads of the block.
template <class C>
__device__ inline void FillCounting(Shared<C>& shared) {
  using T = typename C::T;
  for (int i = threadIdx.x; i < C::kCounting * C::kN; i += C::kThreads) {
    const int key = i % C::kN;
    T* row = shared.counting[i / C::kN][key];
    // The first 16 bytes of a row lie where the copy engine would put them.
    T* piece = row + 8 * (key % 8);
    for (int c = 0; c < 8; ++c) {
      piece[c] = static_cast<T>(c == 0 ? 1.0f : c == 1 ? 1.0f * key : 0.0f);
    }
  }
  FenceForProducts();
}

// Zeros the rows of a block of 64 columns from `from` on.
template <class T, int kRows>
__device__ inline void ZeroRows(T (&block)[kRows][64], int from) {
  uint4* pieces = reinterpret_cast<uint4*>(block);
  for (int i = 8 * Max(from, 0) + threadIdx.x % 128; i < 8 * kRows; i += 128) {
    pieces[i] = make_uint4(0, 0, 0, 0);
  }
}

// Zeros the rows of a tile from `from` on, which lie past the end of a sequence
// and may hold anything: even a probability of 0 would let a NaN through. Every
// warpgroup does it for itself before its products read the tile.
template <class T, int kColumnBlocks, int kRows>
__device__ inline void ZeroTail(T (&tile)[kColumnBlocks][kRows][64], int from,
                                int group) {
#pragma unroll
  for (int b = 0; b < kColumnBlocks; ++b) ZeroRows(tile[b], from);
  FenceForProducts();
  NamedSync(8 + group, 128);
}
// The same of one stage of values.
template <class T, int kColumnBlocks, int kStages, int kRows>
__device__ inline void ZeroTail(T (&tiles)[kColumnBlocks][kStages][kRows][64],
                                int stage, int from, int group) {
#pragma unroll
  for (int b = 0; b < kColumnBlocks; ++b) ZeroRows(tiles[b][stage], from);
  FenceForProducts();
  NamedSync(8 + group, 128);
}

}  // namespace headwise::attention_cuda::sm90
