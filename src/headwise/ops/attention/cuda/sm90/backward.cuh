// The Hopper backward kernel's roles: see gradient.cuh.
#pragma once

#include "headwise/ops/attention/cuda/sm90/gradient.cuh"

namespace headwise::attention_cuda::sm90 {

// Whether a warpgroup's tile has nothing to see: keys and queries 64 each.
__device__ inline bool TileIsEmpty(const Band& band, const TilePlace& at) {
  return at.key > at.position + 63 + band.after ||
         (at.key + 63 < at.position - band.before && at.key >= band.sinks);
}

// The stage that a product still running reads.
template <class C>
struct HeldStage {
  int stage = -1;
  __device__ void Release(GradientShared<C>& shared) {
    if (stage >= 0) WarpArrive(&shared.empty[stage]);
    stage = -1;
  }
};

template <class C>
__device__ inline void ComputeKeys(const BackwardParams& p,
                                   GradientShared<C>& shared,
                                   const GradientTask& t, int group,
                                   Ring<C::kStages>& stage,
                                   float (&dk)[C::kDim / 2],
                                   float (&dv)[C::kDim / 2]) {
  const ForwardParams& f = p.forward;
  const int first = Uniform(t.first) + 64 * group;
  const int begin = Uniform(t.tile_begin), end = Uniform(t.tile_end);
  const int offset = Uniform(t.extent.offset);
  const int query_len = Uniform(t.extent.query_len);
  TilePlace at{first, 0, Uniform(t.extent.key_len)};
  const int64_t batch = f.packed ? 0 : t.sequence;
  const int rows = f.packed ? t.extent.key_len : f.key_len;
  float received[2] = {};
  HeldStage<C> held;
  for (int g = 0; g < f.queries_per_kv; ++g) {
    const int head = t.head * f.queries_per_kv + g;
    if (!IsActive(p, head)) continue;
    for (int tile = begin; tile < end; ++tile) {
      at.position = tile * C::kN + offset;
      const int s = stage.index;
      BarrierWait(&shared.full[s], stage.parity);
      if (!TileIsEmpty(f.band, at)) {
        const int queries = query_len - tile * C::kN;
        if (queries < C::kN) {
          ZeroTail(shared.c1[s], queries, group);
          ZeroTail(shared.c2[s], queries, group);
        }
        QueryInputs<C> in;
        in.lses = shared.lse[s] + 2 * (threadIdx.x % 4);
        in.deltas = shared.delta[s] + 2 * (threadIdx.x % 4);
        GradientTile<C>(p, shared, group, s, at, in, dk, dv, received,
                        [&] { held.Release(shared); });
        held.stage = s;
      } else {
        // A stage held through a run of empty tiles would never come round.
        ProductWait<0>();
        Pin(dk);
        Pin(dv);
        held.Release(shared);
        WarpArrive(&shared.empty[s]);
      }
      stage.Next();
    }
    StoreReceived(p, batch, head, t.extent.key_start + first, rows - first,
                  received);
  }
  ProductWait<0>();
  Pin(dk);
  Pin(dv);
  held.Release(shared);
}

template <class C>
__device__ inline void ComputeQueries(const BackwardParams& p,
                                      GradientShared<C>& shared,
                                      const GradientTask& t, int group,
                                      Ring<C::kStages>& stage,
                                      float (&dq)[C::kDim / 2]) {
  const ForwardParams& f = p.forward;
  KeyWalk walk;
  walk.band_end = Uniform(t.walk.band_end);
  walk.band_count = Uniform(t.walk.band_count);
  walk.sink_end = Uniform(t.walk.sink_end);
  const int first = Uniform(t.first) + 64 * group;
  TilePlace at{0, first + Uniform(t.extent.offset), Uniform(t.extent.key_len)};
  const int64_t inputs =
      (static_cast<int64_t>(t.sequence) * p.heads + t.head) * p.padded_len +
      first + RowInGroup();
  QueryInputs<C> in;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    in.lse[r] = p.lse_log2[inputs + 8 * r];
    in.delta[r] = p.delta[inputs + 8 * r];
  }
  float unused[2];
  HeldStage<C> held;
  for (int step = 0; step < walk.count(); ++step) {
    at.key = walk.Tile(step) * C::kN;
    const int s = stage.index;
    BarrierWait(&shared.full[s], stage.parity);
    if (!TileIsEmpty(f.band, at)) {
      const int keys = at.key_len - at.key;
      if (keys < C::kN) {
        ZeroTail(shared.c1[s], keys, group);
        ZeroTail(shared.c2[s], keys, group);
      }
      GradientTile<C>(p, shared, group, s, at, in, dq, dq, unused,
                      [&] { held.Release(shared); });
      held.stage = s;
    } else {
      ProductWait<0>();
      Pin(dq);
      held.Release(shared);
      WarpArrive(&shared.empty[s]);
    }
    stage.Next();
  }
  ProductWait<0>();
  Pin(dq);
  held.Release(shared);
}

template <class C>
__device__ void ComputeGradients(const BackwardParams& p,
                                 GradientShared<C>& shared, int group) {
  const ForwardParams& f = p.forward;
  Ring<C::kStages> stage;
  Ring<2> slot;
  uint32_t rows_parity = 0;
  for (;;) {
    BarrierWait(&shared.task_full[slot.index], slot.parity);
    const GradientTask& t = shared.task[slot.index];
    const int count = Uniform(t.count);
    if (count < 0) break;
    if (count > 0) {
      BarrierWait(&shared.rows_full, rows_parity);
      rows_parity ^= 1;
    }
    const int64_t batch = f.packed ? 0 : t.sequence;
    const int first = t.first + 64 * group;
    float a[C::kDim / 2] = {};
    if constexpr (C::kKeys) {
      float b[C::kDim / 2] = {};
      ComputeKeys<C>(p, shared, t, group, stage, a, b);
      if (count > 0) WarpArrive(&shared.rows_empty);
      const int rows = f.packed ? t.extent.key_len : f.key_len;
      const int64_t row = t.extent.key_start + first;
      const int counted = t.extent.key_len - first;
      StoreRows<C>(a, p.scale, p.dk, batch, row, t.head, f.head_dim,
                   rows - first, counted);
      StoreRows<C>(b, 1, p.dv, batch, row, t.head, f.value_dim, rows - first,
                   counted);
    } else {
      ComputeQueries<C>(p, shared, t, group, stage, a);
      if (count > 0) WarpArrive(&shared.rows_empty);
      const int rows = f.packed ? t.extent.query_len : f.query_len;
      StoreRows<C>(a, p.scale, p.dq, batch, t.extent.query_start + first,
                   t.head, f.head_dim, rows - first,
                   t.extent.query_len - first);
    }
    __syncwarp();
    WarpArrive(&shared.task_empty[slot.index]);
    slot.Next();
  }
}

template <class C>
__global__ __launch_bounds__(C::kThreads, 1) void GradientKernel(
    const __grid_constant__ GradientMaps maps,
    const __grid_constant__ BackwardParams p) {
  extern __shared__ uint8_t raw[];
  GradientShared<C>& shared = *reinterpret_cast<GradientShared<C>*>(
      raw + (1024 - SharedAddress(raw) % 1024) % 1024);
  if (threadIdx.x == 0) {
    if (C::kKeys) LetNextLaunch();
    const int warps = 4 * C::kGroups;
    BarrierInit(&shared.rows_full, 1);
    BarrierInit(&shared.rows_empty, warps);
    for (int s = 0; s < C::kStages; ++s) {
      BarrierInit(&shared.full[s], 1);
      BarrierInit(&shared.empty[s], warps);
    }
    for (int s = 0; s < 2; ++s) {
      BarrierInit(&shared.task_full[s], 1);
      BarrierInit(&shared.task_empty[s], warps);
    }
    FenceBarrierInit();
  }
  __syncthreads();
  const int group = __shfl_sync(~0u, threadIdx.x / 128, 0);
  if (group == 0) {
    ReleaseRegisters<C::kCopyRegisters>();
    if (threadIdx.x == 0) CopyGradients<C>(maps, p, shared);
  } else {
    TakeRegisters<C::kComputeRegisters>();
    ComputeGradients<C>(p, shared, group - 1);
  }
}

}  // namespace headwise::attention_cuda::sm90
