// The main loop of a computing warpgroup. It issues the next tile's scores and
// this tile's values together. Where Config::kUnder, the scores come first and
// their softmax is done while the values' product still runs; otherwise they
// come last and are awaited with it. Named barriers make the warpgroups take
// turns at the matrix unit, so that one's softmax meets another's products.
#pragma once

#include "headwise/ops/attention/cuda/sm90/histogram.cuh"
#include "headwise/ops/attention/cuda/sm90/tile.cuh"

namespace headwise::attention_cuda::sm90 {

// Warpgroups take turns at issuing products, in order.
template <class C>
__device__ inline void TakeTurn(int group) {
  NamedSync(1 + group, 256);
}
template <class C>
__device__ inline void PassTurn(int group) {
  NamedArrive(1 + (group + 1) % C::kGroups, 256);
}

// Walks the key tiles of one work item. o, rows and the rows' buckets start
// cleared; stage: of the next tile's keys, moved on.
template <class C>
__device__ inline void MainLoop(const typename C::Params& all,
                                Shared<C>& shared, const Task& t,
                                const KeyWalk& walk, int group,
                                const TileContext& at, const Ring<2>& slot,
                                Ring<C::kStages>& stage,
                                float (&o)[C::kDim / 2],
                                Rows<C::kStatistics>& rows) {
  const ForwardParams& params = ForwardOf(all);
  int left = walk.count();
  int tile = walk.Tile(0);
  const int band_begin = walk.band_end - walk.band_count;
  const auto advance = [&] {
    tile = tile == band_begin ? walk.sink_end - 1 : tile - 1;
    --left;
  };
  // Tiles right of everything this warpgroup sees: pass them by, but not before
  // they are there. Until then others may still read what had the stage before,
  // and an arrival would count for that.
  while (left > 1 && tile * C::kN > at.first + 63 + params.band.after) {
    BarrierWait(&shared.k_full[stage.index], stage.parity);
    WarpArrive(&shared.k_empty[stage.index]);
    BarrierWait(&shared.v_full[stage.index], stage.parity);
    WarpArrive(&shared.v_empty[stage.index]);
    stage.Next();
    TakeTurn<C>(group);
    PassTurn<C>(group);
    advance();
  }
  // The tile whose values come next: where it lies and begins, its side, and
  // whether it lies in one bucket of distance.
  Ring<C::kStages> before = stage;
  int begin = 0, side = 0;
  bool is_whole = false;
  WholeTiles whole;
  float counted[4] = {};
  float s[C::kN / 2];
  uint32_t p[C::kN / 16][4];
  float alphas[2];
  bool settled = false;
  const uint32_t tag_mask = shared.tag_mask;
  const auto issue_scores = [&] {
    ProductFence();
    IssueScores<C>(shared, group, slot.index, stage.index, s);
    ProductCommit();
  };
  const auto take_scores = [&] {
    Pin(s);
    WarpArrive(&shared.k_empty[stage.index]);
    stage.Next();
  };
  const auto issue_values = [&] {
    BarrierWait(&shared.v_full[before.index], before.parity);
    const int keys = at.key_len - begin;
    if (keys < C::kN) ZeroTail(shared.v, before.index, keys, group);
    ProductFence();
    IssueValues<C>(shared, before.index, p, o, counted);
    ProductCommit();
  };
  const auto take_values = [&] {
    Pin(o);
    Pin(counted);
    WarpArrive(&shared.v_empty[before.index]);
    before.Next();
  };
  const auto treat = [&] {
    side = SideOf(params, at, tile * C::kN, C::kN);
    return TreatTile<C>(params, t, group, s, rows, at, tile, side, tag_mask,
                        settled, alphas);
  };
  const auto keep_probabilities = [&] {
    begin = tile * C::kN;
    if constexpr (C::kFull) {
      is_whole = BucketTile<C>(all, shared, group, at.first, begin, whole, s);
    }
    Probabilities<C>(s, p);
    advance();
  };
  // The vote tells the compiler that a warp stays together.
  const auto scale_buckets = [&](bool moved) {
    if constexpr (C::kFull) {
      if (__any_sync(~0u, moved)) {
        ScaleBuckets<C>(shared, group, alphas);
        whole.sum[0] *= alphas[0];
        whole.sum[1] *= alphas[1];
      }
    }
  };
  const auto add_counted = [&](int of_side) {
    if (C::kFull && is_whole) {
      whole.sum[0] += counted[0];
      whole.sum[1] += counted[2];
    }
    AddCounted<C>(at, begin, of_side, counted, rows);
  };
  BarrierWait(&shared.q_full[slot.index], slot.parity);
  const int queries = Uniform(t.extent.query_len - t.first_query);
  if (queries < C::kM) ZeroTail(shared.q[slot.index], queries, group);
  BarrierWait(&shared.k_full[stage.index], stage.parity);
  issue_scores();
  ProductWait<0>();
  take_scores();
  treat();
  keep_probabilities();
  while (left > 0) {
    BarrierWait(&shared.k_full[stage.index], stage.parity);
    TakeTurn<C>(group);
    if constexpr (!C::kUnder) issue_values();
    issue_scores();
    if constexpr (C::kUnder) issue_values();
    PassTurn<C>(group);
    ProductWait<C::kUnder ? 1 : 0>();
    take_scores();
    bool moved;
    if constexpr (C::kUnder) {
      const int side_before = side;
      moved = treat();
      ProductWait<0>();
      take_values();
      if (moved) {
#pragma unroll
        for (int i = 0; i < 4; ++i) counted[i] *= alphas[i / 2];
      }
      scale_buckets(moved);
      add_counted(side_before);
    } else {
      take_values();
      add_counted(side);
      moved = treat();
      scale_buckets(moved);
    }
    if (moved) {
#pragma unroll
      for (int i = 0; i < C::kDim / 2; ++i) o[i] *= alphas[(i / 2) % 2];
    }
    keep_probabilities();
  }
  issue_values();
  ProductWait<0>();
  take_values();
  add_counted(side);
  if constexpr (C::kFull) PutWhole<C>(shared, group, whole);
}

}  // namespace headwise::attention_cuda::sm90
