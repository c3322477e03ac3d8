// The shape of the Hopper forward kernel: tiles, registers, shared memory.
#pragma once

#include "headwise/ops/attention/cuda/device/task.cuh"
#include "headwise/ops/attention/cuda/sm90/ptx.cuh"

namespace headwise::attention_cuda::sm90 {

// Scores (64), probabilities (32) and output (kDim / 2) of a warpgroup are in
// registers: with 64 columns three warpgroups fit beside the copying one, with
// 128 two.
template <class Element, int kHeadDim, bool kStatisticsOn>
struct Config {
  using T = Element;
  static constexpr int kDim = kHeadDim;
  static constexpr bool kStatistics = kStatisticsOn;
  static constexpr int kGroups = ComputeGroups(kHeadDim);
  static constexpr int kM = 64 * kGroups;  // queries a block
  static constexpr int kN = 128;           // keys a tile
  static constexpr int kStages = kHeadDim == 64 ? 4 : 2;
  static constexpr int kThreads = 128 * (kGroups + 1);
  // 65 536 registers over the warpgroups, the copying one getting what is left.
  static constexpr int kComputeRegisters = kGroups == 2 ? 232 : 160;
  static constexpr int kCopyRegisters = kGroups == 2 ? 40 : 32;
  static constexpr int kBlocks = kDim / 64;  // 128-byte column blocks
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

template <class C>
struct Shared {
  alignas(1024) typename C::T q[2][C::kBlocks][C::kM][64];
  alignas(1024) typename C::T k[C::kStages][C::kBlocks][C::kN][64];
  alignas(1024) typename C::T v[C::kStages][C::kBlocks][C::kN][64];
  uint64_t q_full[2];
  uint64_t k_full[C::kStages], k_empty[C::kStages];
  uint64_t v_full[C::kStages], v_empty[C::kStages];
  uint64_t task_full[2], task_empty[2];
  Task task[2];
  uint32_t tag_mask;
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

// Zeros the rows of a tile from `from` on, which lie past the end of a sequence
// and may hold anything: even a probability of 0 would let a NaN through. Every
// warpgroup does it for itself before its products read the tile.
template <class T, int kColumnBlocks, int kRows>
__device__ inline void ZeroTail(T (&tile)[kColumnBlocks][kRows][64], int from,
                                int group) {
#pragma unroll
  for (int b = 0; b < kColumnBlocks; ++b) {
    uint4* pieces = reinterpret_cast<uint4*>(tile[b]);
    for (int i = 8 * Max(from, 0) + threadIdx.x % 128; i < 8 * kRows;
         i += 128) {
      pieces[i] = make_uint4(0, 0, 0, 0);
    }
  }
  FenceForProducts();
  NamedSync(8 + group, 128);
}

}  // namespace headwise::attention_cuda::sm90
