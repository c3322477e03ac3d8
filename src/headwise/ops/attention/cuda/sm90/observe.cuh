// The Hopper observing kernel: statistics beyond the core from (q, k, LSE), in
// the forward kernel's form without values. One warpgroup copies, three
// compute, 64 queries each; products of one meet the sums of the others.
#pragma once

#include "headwise/ops/attention/cuda/device/observed.cuh"
#include "headwise/ops/attention/cuda/launch.h"
#include "headwise/ops/attention/cuda/sm90/copy.cuh"
#include "headwise/ops/attention/cuda/sm90/tile.cuh"

namespace headwise::attention_cuda::sm90 {

template <int kHeadDim>
struct ObserveConfig {
  using T = __nv_bfloat16;
  static constexpr int kDim = kHeadDim;
  static constexpr bool kStatistics = false, kValues = false;
  static constexpr int kGroups = 3;
  static constexpr int kM = 64 * kGroups;
  static constexpr int kN = 128;
  static constexpr int kStages = kHeadDim == 64 ? 4 : 2;
  static constexpr int kThreads = 128 * (kGroups + 1);
  static constexpr int kComputeRegisters = 160, kCopyRegisters = 32;
  static constexpr int kBlocks = kDim / 64;
  static constexpr int kCounting = 0;
};

template <class C>
struct ObserveShared {
  Shared<C> tiles;
  float histogram[C::kM][kBuckets];
  float weight[C::kM];
};

// Walks the keys of one task. lse: of the thread's rows, in base 2.
template <class C>
__device__ inline void ObserveKeys(const ObserveParams& p,
                                   ObserveShared<C>& shared, const Task& t,
                                   int group, int slot, const float (&lse)[2],
                                   Ring<C::kStages>& stage, LogSums& sums) {
  const ForwardParams& f = p.forward;
  Shared<C>& tiles = shared.tiles;
  KeyWalk walk;
  walk.band_end = Uniform(t.walk.band_end);
  walk.band_count = Uniform(t.walk.band_count);
  walk.sink_end = Uniform(t.walk.sink_end);
  const int first = Uniform(t.first_query + 64 * group + t.extent.offset);
  const int key_len = Uniform(t.extent.key_len);
  const int row = 64 * group + RowInGroup();
  const int position = first + RowInGroup();
  const bool buckets = p.histogram.data != nullptr || p.partials != nullptr;
  for (int step = 0; step < walk.count(); ++step) {
    const int begin = walk.Tile(step) * C::kN;
    const int s = stage.index;
    BarrierWait(&tiles.k_full[s], stage.parity);
    float e[C::kN / 2];
    ProductFence();
    IssueScores<C>(tiles, group, slot, s, e);
    ProductCommit();
    ProductWait<0>();
    Pin(e);
    WarpArrive(&tiles.k_empty[s]);
    stage.Next();
    if (!TileIsFull(f.band, first, first + 63, key_len, begin, C::kN)) {
      MaskTile(e, f.band, position, begin + 2 * (threadIdx.x % 4), key_len);
    }
    AddProbabilities(e, lse, f.scale_log2, sums);
    if (!buckets) continue;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      AddBuckets(e, r, position + 8 * r - begin, shared.histogram[row + 8 * r]);
    }
  }
}

// Writes what a warpgroup has found for its rows, and their sums.
template <class C>
__device__ inline void FinishObserved(const ObserveParams& p,
                                      ObserveShared<C>& shared, const Task& t,
                                      int group, const float (&lse)[2],
                                      const LogSums& sums) {
  const ForwardParams& f = p.forward;
  const int rows_len = f.packed ? t.extent.query_len : f.query_len;
  const int first = t.first_query + 64 * group;
  RowPlace at{f.packed ? 0 : t.sequence, t.head, 0, 0, true, true};
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = 64 * group + RowInGroup() + 8 * r;
    at.query = t.first_query + row;
    at.row = t.extent.query_start + at.query;
    at.inside = at.query < rows_len;
    at.counts = at.query < t.extent.query_len;
    const Shown shown(at, lse[r]);
    const float log = QuadSum(sums.log[r]);
    const float square_log = QuadSum(sums.square_log[r]);
    const float squares = QuadSum(sums.squares[r]);
    for (int c = threadIdx.x % 4; c < kBuckets; c += 4) {
      shared.histogram[row][c] = shown(shared.histogram[row][c]);
    }
    if (threadIdx.x % 4 != 0) continue;
    shared.weight[row] = WeightOf(p, at, shown);
    if (!at.inside) continue;
    int place = -1;
    const float kept = p.kept_is_max ? KeptMaximum(f, at, place) : 0;
    PutObserved(p, at, shown, log, square_log, squares, kept, place);
  }
  NamedSync(8 + group, 128);
  const float* buckets = shared.histogram[64 * group];
  const int64_t top = t.extent.query_start + first;
  const int left = Min(64, rows_len - first);
  if (p.histogram.data != nullptr) {
    for (int i = threadIdx.x % 128; i < left * kBuckets; i += 128) {
      p.histogram.At(at.sequence, t.head, top + i / kBuckets)[i % kBuckets] =
          buckets[i];
    }
  }
  const int block = first / kObserveRows, c = threadIdx.x % 128;
  if (p.partials != nullptr && block < p.blocks && c < kBuckets) {
    double sum = 0;
    for (int row = 0; row < 64; ++row) {
      const float w = shared.weight[64 * group + row];
      if (w != 0) sum += static_cast<double>(w) * buckets[row * kBuckets + c];
    }
    const int64_t unit =
        static_cast<int64_t>(t.sequence) * f.order.heads + t.head_index;
    p.partials[(unit * p.blocks + block) * p.width + c] = sum;
  }
  NamedSync(8 + group, 128);
}

template <class C>
__device__ void Observe(const ObserveParams& p, ObserveShared<C>& shared,
                        int group) {
  const ForwardParams& f = p.forward;
  Shared<C>& tiles = shared.tiles;
  Ring<C::kStages> stage;
  Ring<2> slot;
  for (;;) {
    BarrierWait(&tiles.task_full[slot.index], slot.parity);
    const Task& t = tiles.task[slot.index];
    const int count = Uniform(t.count);
    if (count < 0) break;
    const int row = 64 * group + RowInGroup();
    float lse[2], base2[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int query = t.first_query + row + 8 * r;
      const int64_t batch = f.packed ? 0 : t.sequence;
      lse[r] = query < t.extent.query_len
                   ? static_cast<const float*>(
                         f.lse.data)[batch * f.lse.batch + t.head * f.lse.head +
                                     t.extent.query_start + query]
                   : -INFINITY;
      base2[r] = isfinite(lse[r]) ? lse[r] / kLn2 : kNothing;
    }
    float* buckets = shared.histogram[64 * group];
    for (int i = threadIdx.x % 128; i < 64 * kBuckets; i += 128) buckets[i] = 0;
    NamedSync(8 + group, 128);
    LogSums sums;
    if (count > 0) {
      BarrierWait(&tiles.q_full[slot.index], slot.parity);
      ObserveKeys<C>(p, shared, t, group, slot.index, base2, stage, sums);
    }
    FinishObserved<C>(p, shared, t, group, lse, sums);
    WarpArrive(&tiles.task_empty[slot.index]);
    slot.Next();
  }
}

template <class C>
__global__ __launch_bounds__(C::kThreads, 1) void ObserveKernel(
    const __grid_constant__ CUtensorMap q_map,
    const __grid_constant__ CUtensorMap k_map,
    const __grid_constant__ ObserveParams p) {
  extern __shared__ uint8_t raw[];
  auto& shared = *reinterpret_cast<ObserveShared<C>*>(
      raw + (1024 - SharedAddress(raw) % 1024) % 1024);
  if (threadIdx.x == 0) InitBarriers<C>(shared.tiles);
  __syncthreads();
  const int group = __shfl_sync(~0u, threadIdx.x / 128, 0);
  if (group == 0) {
    ReleaseRegisters<C::kCopyRegisters>();
    if (threadIdx.x == 0) Copy<C>(q_map, k_map, k_map, p.forward, shared.tiles);
  } else {
    TakeRegisters<C::kComputeRegisters>();
    Observe<C>(p, shared, group - 1);
  }
}

}  // namespace headwise::attention_cuda::sm90
