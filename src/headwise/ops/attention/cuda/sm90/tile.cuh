// What a warpgroup of the Hopper forward kernel does with one tile of keys:
// scores, softmax, values.
#pragma once

#include "headwise/ops/attention/cuda/device/mask.cuh"
#include "headwise/ops/attention/cuda/device/mma.cuh"
#include "headwise/ops/attention/cuda/device/softmax.cuh"
#include "headwise/ops/attention/cuda/sm90/layout.cuh"
#include "headwise/ops/attention/cuda/sm90/rescore.cuh"
#include "headwise/ops/attention/cuda/sm90/wgmma.cuh"

namespace headwise::attention_cuda::sm90 {

// S = Q · Kᵀ of one warpgroup: issued, not awaited.
template <class C>
__device__ inline void IssueScores(const Shared<C>& shared, int group, int slot,
                                   int s, float (&scores)[C::kN / 2]) {
#pragma unroll
  for (int c = 0; c < C::kBlocks; ++c) {
    const uint32_t a = SharedAddress(shared.q[slot][c][64 * group]);
    const uint32_t b = SharedAddress(shared.k[s][c]);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      ProductFromShared<typename C::T>(scores, Descriptor(a, 16, 32 * k),
                                       Descriptor(b, 16, 32 * k), c + k > 0);
    }
  }
}

// O += P · V of one warpgroup, and with statistics what the tile's exponentials
// count: issued, not awaited.
template <class C>
__device__ inline void IssueValues(const Shared<C>& shared, int s,
                                   const uint32_t (&p)[C::kN / 16][4],
                                   float (&o)[C::kDim / 2],
                                   float (&counted)[4]) {
  using T = typename C::T;
  const uint32_t b = SharedAddress(shared.v[0][s]);
#pragma unroll
  for (int k = 0; k < C::kN / 16; ++k) {
    const uint64_t values = Descriptor(b, C::Lead(s), 2048 * k);
    if constexpr (C::kStatistics) {
      ProductFromRegisters<T>(o, counted, p[k], values);
    } else {
      ProductFromRegisters<T>(o, p[k], values);
    }
  }
}

// What a warpgroup needs to know about its rows to treat a tile. Few registers:
// they live through the main loop beside the accumulators.
struct TileContext {
  int first;                 // position of the warpgroup's first row
  int full_from, full_upto;  // tiles that begin within need no mask
  int key_len;
};

// +1: all keys of the tile at or before every row's position; −1: all after.
__device__ inline int SideOf(const ForwardParams& p, const TileContext& at,
                             int begin, int width) {
  if (p.band.after == 0 || begin + width - 1 <= at.first) return 1;
  return begin > at.first + 63 ? -1 : 0;
}

// Adds what the products of the tile that begins at `begin`, on `side` of the
// rows, have counted: lane 0 of a row's four holds Σe and Σe·(j − begin) of e
// as rounded for the product, the others zeros. Good to the rounding, 2^−9 of
// the distance at most.
template <class C>
__device__ inline void AddCounted(const TileContext& at, int begin, int side,
                                  float (&counted)[4],
                                  Rows<C::kStatistics>& rows) {
  if constexpr (C::kStatistics) {
    const float sign = static_cast<float>(side);
    const float from = static_cast<float>(at.first - begin + RowInGroup());
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float d = fmaf(from + 8 * r, counted[2 * r], -counted[2 * r + 1]);
      rows.distance[r] = fmaf(sign, d, rows.distance[r]);
      counted[2 * r] = counted[2 * r + 1] = 0;
    }
    Pin(counted);  // zeroed here: later, and products would wait for each other
  }
}

// Whether a thread's exponentials are in range.
template <class C>
__device__ inline bool InRange(const TileSums<C::kStatistics>& t) {
  // Squares must not overflow either.
  constexpr float kLimit = C::kFull ? 0x1p32f : kSumLimit<typename C::T>;
  return t.sum[0] < kLimit && t.sum[1] < kLimit;
}

// The tile's scores again, where they left the range of their reference.
template <class C>
__device__ inline void ScoresAgain(const ForwardParams& p, const Task& t,
                                   int group, int begin,
                                   float (&s)[C::kN / 2]) {
  using T = typename C::T;
  const int last = t.extent.query_len - 1;
  const int row = t.first_query + 64 * group + RowInGroup();
  TileSource<T> tile;
  tile.query =
      RowsOf<T>(p.q, p.packed, t.sequence, t.extent.query_start, t.head) +
      Min(row, last) * p.q.row;
  tile.second = (Min(row + 8, last) - Min(row, last)) * p.q.row;
  tile.keys = RowsOf<T>(p.k, p.packed, t.sequence, t.extent.key_start,
                        t.head / p.queries_per_kv) +
              begin * p.k.row;
  tile.key_row = p.k.row;
  tile.columns = p.head_dim;
  tile.begin = begin;
  tile.key_len = t.extent.key_len;
  tile.position = row + t.extent.offset;
  Rescore<T>(tile, p.band, s);
}

// Turns the tile's scores into exponentials and adds them to the rows. side: of
// the rows (SideOf). Returns whether the output must be scaled by alphas.
template <class C>
__device__ inline bool TreatTile(const ForwardParams& p, const Task& t,
                                 int group, float (&s)[C::kN / 2],
                                 Rows<C::kStatistics>& rows,
                                 const TileContext& at, int tile, int side,
                                 uint32_t tag_mask, bool& settled,
                                 float (&alphas)[2]) {
  constexpr bool kStatistics = C::kStatistics, kColumns = false;
  const int begin = tile * C::kN;
  const int column = begin + 2 * (threadIdx.x % 4);
  const bool full = begin >= at.full_from && begin <= at.full_upto;
  if (!full) MaskTile(s, p.band, at.first + RowInGroup(), column, at.key_len);
  alphas[0] = alphas[1] = 1;
  const bool unsettled = !settled;
  if (unsettled) {
    settled = MoveReference<C::kFull>(s, rows, p.scale_log2, alphas);
  }
  TileSums<kStatistics> sums =
      Exponentials<kStatistics, kColumns, C::kThreeWay, C::kFull>(
          s, rows, p.scale_log2, tag_mask);
  const bool sound = InRange<C>(sums) && EntropyIsSound(sums);
  bool overrun = false;
  if (!__all_sync(~0u, sound)) {
    overrun = !__all_sync(~0u, InRange<C>(sums));
    if (overrun) {
      ScoresAgain<C>(p, t, group, begin, s);
      MoveReference<C::kFull>(s, rows, p.scale_log2, alphas);
      sums = Exponentials<kStatistics, kColumns, C::kThreeWay, C::kFull>(
          s, rows, p.scale_log2, tag_mask);
    }
    if (kStatistics) MendEntropy<C::kFull>(s, sums);
  }
  AddTile<kStatistics, kColumns, C::kFull>(
      rows, sums, s, column, at.first + RowInGroup() - column, side);
  return unsettled || overrun;
}

template <class C>
__device__ inline void Probabilities(const float (&e)[C::kN / 2],
                                     uint32_t (&p)[C::kN / 16][4]) {
#pragma unroll
  for (int i = 0; i < C::kN / 4; ++i) {
    p[i / 4][i % 4] = Pack<typename C::T>(e[2 * i], e[2 * i + 1]);
  }
}

}  // namespace headwise::attention_cuda::sm90
