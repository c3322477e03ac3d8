// The Hopper backward kernel, in two forms. A block holds two matrices of rows
// (128, 64 a warpgroup) and walks tiles of two others (64 columns each):
//
//            rows      columns    results
//   queries  Q, dO     K, V       dQ = Σ dS·K
//   keys     K, V      Q, dO      dK = Σ dSᵀ·Q, dV = Σ Pᵀ·dO
//
// with S = R1·C1ᵀ, P = 2^(S·scale − LSE), dP = R2·C2ᵀ, dS = P·(dP − δ). The
// scores are computed in both: 7 products where 5 would do with atomic sums,
// and results that repeat bit for bit.
#pragma once

#include "headwise/ops/attention/cuda/device/epilogue.cuh"
#include "headwise/ops/attention/cuda/device/mask.cuh"
#include "headwise/ops/attention/cuda/device/mma.cuh"
#include "headwise/ops/attention/cuda/launch.h"
#include "headwise/ops/attention/cuda/sm90/layout.cuh"
#include "headwise/ops/attention/cuda/sm90/wgmma.cuh"

namespace headwise::attention_cuda::sm90 {

template <class Element, int kHeadDim, bool kRowsAreKeys>
struct GradientConfig {
  using T = Element;
  static constexpr int kDim = kHeadDim;
  static constexpr bool kKeys = kRowsAreKeys;
  static constexpr int kGroups = GradientGroups(kHeadDim, kRowsAreKeys);
  static constexpr int kM = 64 * kGroups;
  static constexpr int kN = 64;
  static constexpr int kStages = kHeadDim == 64 ? 6 : 4;
  static constexpr int kThreads = 128 * (kGroups + 1);
  static constexpr int kBlocks = kDim / 64;
  static constexpr int kComputeRegisters = kGroups == 2 ? 232 : 160;
  static constexpr int kCopyRegisters = kGroups == 2 ? 40 : 32;
  // A tile's last product runs on under the next tile's first. With two results
  // of 128 columns no registers are left for its operand dS, which then lies in
  // shared memory.
  static constexpr bool kStored = kRowsAreKeys && kHeadDim == 128;
};

struct GradientTask {
  int count;                  // tiles, of all heads; −1: no task
  int sequence, head, first;  // head: of the rows; first: row of the block
  Extent extent;
  KeyWalk walk;              // queries
  int tile_begin, tile_end;  // keys: tiles of each head
};

template <class C>
struct GradientShared {
  alignas(1024) typename C::T r1[C::kBlocks][C::kM][64];
  alignas(1024) typename C::T r2[C::kBlocks][C::kM][64];
  alignas(1024) typename C::T c1[C::kStages][C::kBlocks][C::kN][64];
  alignas(1024) typename C::T c2[C::kStages][C::kBlocks][C::kN][64];
  alignas(1024) typename C::T
      stored[C::kStored ? C::kGroups : 1][C::kStored ? 64 : 8][64];
  alignas(16) float lse[C::kStages][C::kN];  // keys: of the tile's queries
  alignas(16) float delta[C::kStages][C::kN];
  uint64_t rows_full, rows_empty;
  uint64_t full[C::kStages], empty[C::kStages];
  uint64_t task_full[2], task_empty[2];
  GradientTask task[2];
};

__device__ inline bool IsActive(const BackwardParams& p, int head) {
  return p.is_active == nullptr || p.is_active[head] != 0;
}

template <class C>
__device__ inline GradientTask MakeGradientTask(const BackwardParams& p,
                                                int index) {
  const ForwardParams& f = p.forward;
  GradientTask t;
  if constexpr (!C::kKeys) {
    const Task q = MakeTask(f, index, C::kM, C::kN);
    t.count = q.count;
    t.sequence = q.sequence;
    t.head = q.head;
    t.first = q.first_query;
    t.extent = q.extent;
    t.walk = q.walk;
    return t;
  }
  t.count = -1;
  if (index >= p.key_order.count()) return t;
  const WorkItem item = p.key_order.At(index);
  t.sequence = item.sequence;
  t.head = item.head;
  // Under a causal mask the first keys are seen most.
  t.first = (p.key_order.blocks - 1 - item.block) * C::kM;
  t.extent = ExtentOf(f, item.sequence);
  const int last = Min(t.extent.key_len, t.first + C::kM) - 1;
  const int2 tiles = QueryBlocks(f.band, t.extent, t.first, last, C::kN);
  t.tile_begin = tiles.x;
  t.tile_end = tiles.y;
  int heads = 0;
  for (int g = 0; g < f.queries_per_kv; ++g) {
    heads += IsActive(p, t.head * f.queries_per_kv + g);
  }
  t.count = heads * (tiles.y - tiles.x);
  return t;
}

// Loads one tile of columns of `head`, rows from `row` of the views.
template <class C>
__device__ inline void LoadColumns(const GradientMaps& maps,
                                   GradientShared<C>& shared,
                                   Ring<C::kStages>& stage, int head, int row,
                                   int batch, const BackwardParams& p,
                                   int64_t inputs) {
  const int s = stage.index;
  uint64_t* full = &shared.full[s];
  BarrierWait(&shared.empty[s], stage.parity ^ 1);
  const int extra = C::kKeys ? 2 * C::kN * static_cast<int>(sizeof(float)) : 0;
  BarrierExpect(full, 2 * C::kN * C::kDim * 2 + extra);
  for (int c = 0; c < C::kBlocks; ++c) {
    LoadBox(maps.c1, shared.c1[s][c], full, 64 * c, head, row, batch);
    LoadBox(maps.c2, shared.c2[s][c], full, 64 * c, head, row, batch);
  }
  if (C::kKeys) {
    LoadBytes(shared.lse[s], p.lse_log2 + inputs, 4 * C::kN, full);
    LoadBytes(shared.delta[s], p.delta + inputs, 4 * C::kN, full);
  }
  stage.Next();
}

template <class C>
__device__ inline void CopyColumns(const GradientMaps& maps,
                                   const BackwardParams& p,
                                   GradientShared<C>& shared,
                                   const GradientTask& t,
                                   Ring<C::kStages>& stage) {
  const ForwardParams& f = p.forward;
  const int batch = f.packed ? 0 : t.sequence;
  if constexpr (!C::kKeys) {
    for (int step = 0; step < t.count; ++step) {
      LoadColumns<C>(maps, shared, stage, t.head / f.queries_per_kv,
                     t.extent.key_start + t.walk.Tile(step) * C::kN, batch, p,
                     0);
    }
  } else {
    for (int g = 0; g < f.queries_per_kv; ++g) {
      const int head = t.head * f.queries_per_kv + g;
      if (!IsActive(p, head)) continue;
      const int64_t inputs =
          (static_cast<int64_t>(t.sequence) * p.heads + head) * p.padded_len;
      for (int tile = t.tile_begin; tile < t.tile_end; ++tile) {
        LoadColumns<C>(maps, shared, stage, head,
                       t.extent.query_start + tile * C::kN, batch, p,
                       inputs + tile * C::kN);
      }
    }
  }
}

// One thread runs this.
template <class C>
__device__ void CopyGradients(const GradientMaps& maps, const BackwardParams& p,
                              GradientShared<C>& shared) {
  Ring<C::kStages> stage;
  Ring<2> slot;
  uint32_t rows_parity = 1;
  int* counters = p.forward.counters;
  for (;;) {
    const GradientTask t = MakeGradientTask<C>(p, atomicAdd(counters, 1));
    BarrierWait(&shared.task_empty[slot.index], slot.parity ^ 1);
    shared.task[slot.index] = t;
    BarrierArrive(&shared.task_full[slot.index]);
    slot.Next();
    if (t.count < 0) break;
    if (t.count == 0) continue;
    BarrierWait(&shared.rows_empty, rows_parity);
    rows_parity ^= 1;
    BarrierExpect(&shared.rows_full, 2 * C::kM * C::kDim * 2);
    const int batch = p.forward.packed ? 0 : t.sequence;
    const int start = C::kKeys ? t.extent.key_start : t.extent.query_start;
    for (int c = 0; c < C::kBlocks; ++c) {
      LoadBox(maps.r1, shared.r1[c], &shared.rows_full, 64 * c, t.head,
              start + t.first, batch);
      LoadBox(maps.r2, shared.r2[c], &shared.rows_full, 64 * c, t.head,
              start + t.first, batch);
    }
    CopyColumns<C>(maps, p, shared, t, stage);
  }
  __threadfence();
  if (atomicAdd(counters + 1, 1) == static_cast<int>(gridDim.x) - 1) {
    counters[0] = 0;
    counters[1] = 0;
  }
  // So that what follows in the stream follows both kernels.
  if (!C::kKeys) WaitForLaunchBefore();
}

// d[64 × 64] = R · Cᵀ of a warpgroup's rows: issued, not awaited.
template <class C>
__device__ inline void IssueRowProduct(
    const typename C::T (&r)[C::kBlocks][C::kM][64],
    const typename C::T (&c)[C::kBlocks][C::kN][64], int group,
    float (&d)[32]) {
#pragma unroll
  for (int b = 0; b < C::kBlocks; ++b) {
    const uint32_t rows = SharedAddress(r[b][64 * group]);
    const uint32_t columns = SharedAddress(c[b]);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      ProductFromShared<typename C::T>(d, Descriptor(rows, 16, 32 * k),
                                       Descriptor(columns, 16, 32 * k),
                                       b + k > 0);
    }
  }
}

// d[64 × kDim] += A[64 × 64] · C, A in registers: issued, not awaited.
template <class C>
__device__ inline void IssueResult(
    const uint32_t (&a)[4][4], const typename C::T (&c)[C::kBlocks][C::kN][64],
    float (&d)[C::kDim / 2]) {
  const uint32_t columns = SharedAddress(c);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    ProductFromRegisters<typename C::T>(
        d, a[k], Descriptor(columns, C::kN * 128, 2048 * k));
  }
}

template <class C>
__device__ inline void PackTile(const float (&d)[32], uint32_t (&a)[4][4]) {
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    a[i / 4][i % 4] = Pack<typename C::T>(d[2 * i], d[2 * i + 1]);
  }
}

// The same to rows of shared memory as the copy engine would put them, a warp
// its 16 of 64 rows.
template <class C>
__device__ inline void StoreTile(const float (&d)[32],
                                 typename C::T (&rows)[64][64]) {
  const int lane = threadIdx.x % 32;
  const uint32_t row =
      SharedAddress(rows[threadIdx.x % 128 / 32 * 16 + lane % 16]);
  const uint32_t first = row + 16 * (lane / 16 ^ lane % 8);
  uint32_t a[4][4];
  PackTile<C>(d, a);
#pragma unroll
  for (int k = 0; k < 4; ++k) StoreBlocks(a[k], first ^ 32 * k);
}

// d[64 × 128] += A[64 × 64] · C, A in shared memory: issued, not awaited.
template <class C>
__device__ inline void IssueStored(
    const typename C::T (&a)[64][64],
    const typename C::T (&c)[C::kBlocks][C::kN][64], float (&d)[C::kDim / 2]) {
  const uint32_t rows = SharedAddress(a), columns = SharedAddress(c);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    ProductOfStored(d, Descriptor(rows, 16, 32 * k),
                    Descriptor(columns, C::kN * 128, 2048 * k));
  }
}

// Where a warpgroup stands in a tile: keys from `key`, queries at positions
// from `position`, 64 each.
struct TilePlace {
  int key, position, key_len;
};

template <class C>
__device__ inline void MaskGradientTile(float (&s)[32], const Band& band,
                                        const TilePlace& at) {
  if (TileIsFull(band, at.position, at.position + 63, at.key_len, at.key, 64)) {
    return;
  }
  const int row = RowInGroup(), column = 2 * (threadIdx.x % 4);
  if constexpr (!C::kKeys) {
    MaskTile(s, band, at.position + row, at.key + column, at.key_len);
  } else {
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int key = at.key + row + 8 * ((i / 2) % 2);
      const int position = at.position + column + 8 * (i / 4) + i % 2;
      s[i] = Sees(band, position, key, at.key_len) ? s[i] : kMasked;
    }
  }
}

// LSE and δ of the queries of a thread: of its two rows, or of its columns.
template <class C>
struct QueryInputs {
  float lse[2], delta[2];      // rows
  const float *lses, *deltas;  // columns, in shared memory
  __device__ float2 Lse(int k, int r) const {
    return C::kKeys ? *reinterpret_cast<const float2*>(lses + 8 * k)
                    : make_float2(lse[r], lse[r]);
  }
  __device__ float2 Delta(int k, int r) const {
    return C::kKeys ? *reinterpret_cast<const float2*>(deltas + 8 * k)
                    : make_float2(delta[r], delta[r]);
  }
};

template <class C>
__device__ inline void ProbabilitiesOf(float (&s)[32], float scale,
                                       const QueryInputs<C>& in) {
#pragma unroll
  for (int k = 0; k < 8; ++k) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float2 lse = in.Lse(k, r);
      float* pair = s + 4 * k + 2 * r;
      pair[0] = Exp2(fmaf(pair[0], scale, -lse.x));
      pair[1] = Exp2(fmaf(pair[1], scale, -lse.y));
    }
  }
}

// dp becomes dS = P·(dP − δ).
template <class C>
__device__ inline void ScoreGradients(const float (&p)[32], float (&dp)[32],
                                      const QueryInputs<C>& in) {
#pragma unroll
  for (int k = 0; k < 8; ++k) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float2 delta = in.Delta(k, r);
      const int i = 4 * k + 2 * r;
      dp[i] = p[i] * (dp[i] - delta.x);
      dp[i + 1] = p[i + 1] * (dp[i + 1] - delta.y);
    }
  }
}

// One tile of columns. first: dQ or dK, second: dV. `release` is called when
// the products of the tile before are done; this tile's last still runs.
template <class C, class Release>
__device__ inline void GradientTile(
    const BackwardParams& p, GradientShared<C>& shared, int group, int stage,
    const TilePlace& at, const QueryInputs<C>& in, float (&first)[C::kDim / 2],
    float (&second)[C::kDim / 2], float (&received)[2], Release release) {
  float s[32], dp[32];
  ProductFence();
  IssueRowProduct<C>(shared.r1, shared.c1[stage], group, s);
  ProductCommit();
  IssueRowProduct<C>(shared.r2, shared.c2[stage], group, dp);
  ProductCommit();
  ProductWait<1>();
  Pin(s);
  release();
  MaskGradientTile<C>(s, p.forward.band, at);
  ProbabilitiesOf<C>(s, p.forward.scale_log2, in);
  uint32_t a[4][4];
  if constexpr (C::kKeys) {
    if (p.received.data != nullptr) {
#pragma unroll
      for (int i = 0; i < 32; ++i) received[(i / 2) % 2] += s[i];
    }
    PackTile<C>(s, a);
    ProductFence();
    IssueResult<C>(a, shared.c2[stage], second);
    ProductCommit();
    ProductWait<1>();
  } else {
    ProductWait<0>();
  }
  Pin(dp);
  ScoreGradients<C>(s, dp, in);
  if constexpr (C::kStored) {
    StoreTile<C>(dp, shared.stored[group]);
    FenceForProducts();
    NamedSync(8 + group, 128);
    ProductFence();
    IssueStored<C>(shared.stored[group], shared.c1[stage], first);
    ProductCommit();
    ProductWait<1>();
    Pin(second);
  } else {
    uint32_t b[4][4];
    PackTile<C>(dp, b);
    ProductFence();
    IssueResult<C>(b, shared.c1[stage], first);
    ProductCommit();
  }
}

// Rows of a warpgroup's result to a view, zeros past the `counted` ones.
template <class C>
__device__ inline void StoreRows(const float (&d)[C::kDim / 2], float scale,
                                 const Strided& view, int64_t batch,
                                 int64_t row, int head, int columns,
                                 int rows_left, int counted) {
  using T = typename C::T;
  if (view.data == nullptr) return;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int in_group = RowInGroup() + 8 * r;
    T* to = RowsOf<T>(view, false, batch, row + in_group, head);
    const auto store = [&](int width) {
      StoreRow<T, C::kDim>(d, r, in_group < counted ? scale : 0, nullptr, 0, to,
                           width, in_group < rows_left);
    };
    // Twice: with the common width as a constant the main loop spills less.
    columns == C::kDim ? store(C::kDim) : store(columns);
  }
}

__device__ inline void StoreReceived(const BackwardParams& p, int64_t batch,
                                     int head, int64_t row, int rows_left,
                                     float (&received)[2]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float sum = QuadSum(received[r]);
    received[r] = 0;
    const int in_group = RowInGroup() + 8 * r;
    if (p.received.data != nullptr && threadIdx.x % 4 == 0 &&
        in_group < rows_left) {
      static_cast<float*>(
          p.received.data)[batch * p.received.batch + head * p.received.head +
                           row + in_group] = sum;
    }
  }
}

}  // namespace headwise::attention_cuda::sm90
