// The Hopper forward kernel: one warpgroup copies tiles in, the others compute,
// each 64 queries of the block. Blocks stay and take work items in order of
// WorkOrder until none is left.
#pragma once

#include "headwise/ops/attention/cuda/device/epilogue.cuh"
#include "headwise/ops/attention/cuda/sm90/copy.cuh"
#include "headwise/ops/attention/cuda/sm90/main_loop.cuh"

namespace headwise::attention_cuda::sm90 {

// Writes what a warpgroup has found for its rows.
template <class C>
__device__ inline void Finish(const typename C::Params& all, Shared<C>& shared,
                              const Task& t, int group,
                              const float (&o)[C::kDim / 2],
                              const Rows<C::kStatistics>& rows) {
  const ForwardParams& p = ForwardOf(all);
  RowPlace place;
  place.sequence = p.packed ? 0 : t.sequence;
  place.head = t.head;
  place.query = t.first_query + 64 * group + RowInGroup();
  place.row = t.extent.query_start + place.query;
  place.inside = place.counts = true;
  const int rows_len = p.packed ? t.extent.query_len : p.query_len;
  FinishRows<typename C::T, C::kDim, C::kStatistics>(
      p, rows, o, place, t.extent.query_len, rows_len);
  if constexpr (C::kFull) {
    FinishObserved<C>(all, shared, t, group, place, rows_len, rows);
  }
}

template <class C>
__device__ void Compute(const typename C::Params& all, Shared<C>& shared,
                        int group) {
  const ForwardParams& p = ForwardOf(all);
  Ring<C::kStages> stage;
  Ring<2> slot;
  if (group == C::kGroups - 1) NamedArrive(1, 256);  // the first turn
  for (;;) {
    BarrierWait(&shared.task_full[slot.index], slot.parity);
    const Task& t = shared.task[slot.index];
    const int count = Uniform(t.count);
    if (count < 0) break;
    float o[C::kDim / 2];
#pragma unroll
    for (int i = 0; i < C::kDim / 2; ++i) o[i] = 0;
    Rows<C::kStatistics> rows;
    if constexpr (C::kFull) ClearBuckets<C>(shared, group);
    if (count > 0) {
      KeyWalk walk;
      walk.band_end = Uniform(t.walk.band_end);
      walk.band_count = Uniform(t.walk.band_count);
      walk.sink_end = Uniform(t.walk.sink_end);
      TileContext at;
      at.first = Uniform(t.first_query + 64 * group + t.extent.offset);
      at.key_len = Uniform(t.extent.key_len);
      at.full_from = at.first + 63 - p.band.before;
      at.full_upto = Min(at.key_len, at.first + p.band.after + 1) - C::kN;
      MainLoop<C>(all, shared, t, walk, group, at, slot, stage, o, rows);
    }
    Finish<C>(all, shared, t, group, o, rows);
    __syncwarp();
    WarpArrive(&shared.task_empty[slot.index]);
    slot.Next();
  }
}

template <class C>
__global__ __launch_bounds__(C::kThreads, 1) void ForwardKernel(
    const __grid_constant__ CUtensorMap q_map,
    const __grid_constant__ CUtensorMap k_map,
    const __grid_constant__ CUtensorMap v_map,
    const __grid_constant__ typename C::Params p) {
  extern __shared__ uint8_t raw[];
  Shared<C>& shared = *reinterpret_cast<Shared<C>*>(
      raw + (1024 - SharedAddress(raw) % 1024) % 1024);
  if (threadIdx.x == 0) {
    InitBarriers<C>(shared);
    shared.tag_mask = kTagMask;
    PrefetchMap(q_map);
    PrefetchMap(k_map);
    PrefetchMap(v_map);
  }
  FillCounting<C>(shared);
  __syncthreads();
  const int group = __shfl_sync(~0u, threadIdx.x / 128, 0);
  if (group == 0) {
    ReleaseRegisters<C::kCopyRegisters>();
    if (threadIdx.x == 0) {
      Copy<C>(q_map, k_map, v_map, ForwardOf(p), shared);
    }
  } else {
    TakeRegisters<C::kComputeRegisters>();
    Compute<C>(p, shared, group - 1);
  }
}

}  // namespace headwise::attention_cuda::sm90
