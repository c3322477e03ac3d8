// The main loop of a computing warpgroup. It issues the next tile's scores and
// this tile's values together and does the softmax of the former while the
// latter still runs; named barriers make the warpgroups take turns at the
// matrix unit, so that one's softmax meets another's products.
#pragma once

#include "headwise/ops/attention/cuda/sm90/tile.cuh"

namespace headwise::attention_cuda::sm90 {

// The ring positions of one warpgroup, kept from work item to work item.
template <class C>
struct Rings {
  Ring<C::kStages> k, v;
};

// Warpgroups take turns at issuing products, in order.
template <class C>
__device__ inline void TakeTurn(int group) {
  NamedSync(1 + group, 256);
}
template <class C>
__device__ inline void PassTurn(int group) {
  NamedArrive(1 + (group + 1) % C::kGroups, 256);
}

// Walks the key tiles of one work item. o and rows start cleared.
template <class C>
__device__ inline void MainLoop(const ForwardParams& params, Shared<C>& shared,
                                const Task& t, const KeyWalk& walk, int group,
                                const TileContext& at, const Ring<2>& slot,
                                Rings<C>& rings, float (&o)[C::kDim / 2],
                                Rows<C::kStatistics>& rows) {
  int left = walk.count();
  int tile = walk.Tile(0);
  const int band_begin = walk.band_end - walk.band_count;
  const auto advance = [&] {
    tile = tile == band_begin ? walk.sink_end - 1 : tile - 1;
    --left;
  };
  // Tiles right of everything this warpgroup sees: pass them by.
  while (left > 1 && tile * C::kN > at.first + 63 + params.band.after) {
    WarpArrive(&shared.k_empty[rings.k.index]);
    WarpArrive(&shared.v_empty[rings.v.index]);
    rings.k.Next();
    rings.v.Next();
    TakeTurn<C>(group);
    PassTurn<C>(group);
    advance();
  }
  // Keys of the tile whose values come next that are keys of the sequence.
  int values = at.key_len - tile * C::kN;
  const auto clear_tail = [&] {
    if (values < C::kN) ZeroTail(shared.v, rings.v.index, values, group);
  };
  // What the running product counts; begin: of its tile.
  float counted[4] = {};
  int begin = tile * C::kN;
  float s[C::kN / 2];
  uint32_t p[C::kN / 16][4];
  float alphas[2] = {1, 1};
  bool settled = false;
  const uint32_t tag_mask = shared.tag_mask;
  BarrierWait(&shared.q_full[slot.index], slot.parity);
  const int queries = Uniform(t.extent.query_len - t.first_query);
  if (queries < C::kM) ZeroTail(shared.q[slot.index], queries, group);
  BarrierWait(&shared.k_full[rings.k.index], rings.k.parity);
  ProductFence();
  IssueScores<C>(shared, group, slot.index, rings.k.index, s);
  ProductCommit();
  ProductWait<0>();
  Pin(s);
  WarpArrive(&shared.k_empty[rings.k.index]);
  rings.k.Next();
  TreatTile<C>(params, t, group, s, rows, at, tile, tag_mask, settled, alphas);
  Probabilities<C>(s, p);
  advance();
  while (left > 0) {
    BarrierWait(&shared.k_full[rings.k.index], rings.k.parity);
    TakeTurn<C>(group);
    ProductFence();
    IssueScores<C>(shared, group, slot.index, rings.k.index, s);
    ProductCommit();
    BarrierWait(&shared.v_full[rings.v.index], rings.v.parity);
    clear_tail();
    ProductFence();
    IssueValues<C>(shared, rings.v.index, p, o, counted);
    ProductCommit();
    PassTurn<C>(group);
    ProductWait<1>();
    Pin(s);
    WarpArrive(&shared.k_empty[rings.k.index]);
    rings.k.Next();
    const bool moved = TreatTile<C>(params, t, group, s, rows, at, tile,
                                    tag_mask, settled, alphas);
    ProductWait<0>();
    Pin(o);
    Pin(counted);
    if (moved) {
#pragma unroll
      for (int i = 0; i < 4; ++i) counted[i] *= alphas[i / 2];
    }
    AddCounted<C>(params, at, begin, counted, rows);
    begin = tile * C::kN;
    WarpArrive(&shared.v_empty[rings.v.index]);
    rings.v.Next();
    if (moved) {
#pragma unroll
      for (int i = 0; i < C::kDim / 2; ++i) o[i] *= alphas[(i / 2) % 2];
    }
    Probabilities<C>(s, p);
    values = at.key_len - tile * C::kN;
    advance();
  }
  BarrierWait(&shared.v_full[rings.v.index], rings.v.parity);
  clear_tail();
  ProductFence();
  IssueValues<C>(shared, rings.v.index, p, o, counted);
  ProductCommit();
  ProductWait<0>();
  Pin(o);
  Pin(counted);
  AddCounted<C>(params, at, begin, counted, rows);
  WarpArrive(&shared.v_empty[rings.v.index]);
  rings.v.Next();
}

}  // namespace headwise::attention_cuda::sm90
