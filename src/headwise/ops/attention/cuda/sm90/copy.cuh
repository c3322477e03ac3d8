// The copying warp of the Hopper forward kernel: takes work items from the
// counter and keeps the tiles coming.
#pragma once

#include "headwise/ops/attention/cuda/sm90/layout.cuh"

namespace headwise::attention_cuda::sm90 {

// One thread runs this.
template <class C>
__device__ void Copy(const CUtensorMap& q_map, const CUtensorMap& k_map,
                     const CUtensorMap& v_map, const ForwardParams& p,
                     Shared<C>& shared) {
  constexpr int kTileBytes = C::kN * C::kDim * 2;
  Ring<C::kStages> stage;
  Ring<2> slot;
  for (;;) {
    const Task t = MakeTask(p, atomicAdd(p.counters, 1), C::kM, C::kN);
    BarrierWait(&shared.task_empty[slot.index], slot.parity ^ 1);
    shared.task[slot.index] = t;
    BarrierArrive(&shared.task_full[slot.index]);
    if (t.count < 0) break;
    const int batch = p.packed ? 0 : t.sequence;
    const int kv_head = t.head / p.queries_per_kv;
    // The queries' slot goes with the task's: free when that is.
    if (t.count > 0) {
      uint64_t* full = &shared.q_full[slot.index];
      BarrierExpect(full, C::kM * C::kDim * 2);
      for (int c = 0; c < C::kBlocks; ++c) {
        LoadBox(q_map, shared.q[slot.index][c], full, 64 * c, t.head,
                t.extent.query_start + t.first_query, batch);
      }
    } else {
      BarrierArrive(&shared.q_full[slot.index]);
    }
    slot.Next();
    for (int step = 0; step < t.count; ++step) {
      const int row = t.extent.key_start + t.walk.Tile(step) * C::kN;
      const int s = stage.index;
      BarrierWait(&shared.k_empty[s], stage.parity ^ 1);
      BarrierExpect(&shared.k_full[s], kTileBytes);
      for (int c = 0; c < C::kBlocks; ++c) {
        LoadBox(k_map, shared.k[s][c], &shared.k_full[s], 64 * c, kv_head, row,
                batch);
      }
      BarrierWait(&shared.v_empty[s], stage.parity ^ 1);
      BarrierExpect(&shared.v_full[s], kTileBytes);
      for (int c = 0; c < C::kBlocks; ++c) {
        LoadBox(v_map, shared.v[c][s], &shared.v_full[s], 64 * c, kv_head, row,
                batch);
      }
      stage.Next();
    }
  }
  // The last block to finish leaves the counters as it found them.
  __threadfence();
  if (atomicAdd(p.counters + 1, 1) == static_cast<int>(gridDim.x) - 1) {
    p.counters[0] = 0;
    p.counters[1] = 0;
  }
}

}  // namespace headwise::attention_cuda::sm90
