// The portable forward kernel: a block takes 64 queries of one head, 16 a warp,
// and walks the keys 64 at a time, copies running one tile ahead. Keys are
// padded with zeros to kDim columns, values to kValueDim.
#pragma once

#include "headwise/ops/attention/cuda/device/epilogue.cuh"
#include "headwise/ops/attention/cuda/device/mask.cuh"
#include "headwise/ops/attention/cuda/device/score.cuh"
#include "headwise/ops/attention/cuda/device/softmax.cuh"
#include "headwise/ops/attention/cuda/device/task.cuh"
#include "headwise/ops/attention/cuda/sm80/tile.cuh"

namespace headwise::attention_cuda::sm80 {

template <class T, int kDim, int kValueDim, int kStages>
struct ForwardTiles {
  Tile<T, kDim> q;
  Tile<T, kDim> k[kStages];
  Tile<T, kValueDim> v[kStages];
};

// Two stages where they fit in the 99 KB of the smaller chips.
template <int kDim, int kValueDim>
inline constexpr int kStages =
    sizeof(ForwardTiles<uint16_t, kDim, kValueDim, 2>) <= 99 * 1024 ? 2 : 1;

template <class T, int kDim, int kValueDim>
using ForwardShared =
    ForwardTiles<T, kDim, kValueDim, kStages<kDim, kValueDim>>;

// Turns a tile of scores into exponentials relative to the maximum so far and
// adds them to the rows. Returns by what the output must be scaled.
__device__ inline void TreatTile(const ForwardParams& p, const Task& t,
                                 float (&s)[32], Rows<true>& rows, int first,
                                 int begin, float (&alphas)[2]) {
  const int lane = threadIdx.x % 32;
  const int position = first + lane / 4, column = begin + 2 * (lane % 4);
  if (p.shape.any()) {
    ShapeRow(p, t.head, s, 0, position - column);
    ShapeRow(p, t.head, s, 1, position + 8 - column);
  }
  if (!TileIsFull(p.band, first, first + 15, t.extent.key_len, begin, kRows)) {
    MaskTile(s, p.band, position, column, t.extent.key_len);
  }
  MoveReference(s, rows, p.scale_log2, alphas);
  TileSums<true> sums =
      Exponentials<true, true>(s, rows, p.scale_log2, kTagMask);
  if (!__all_sync(~0u, EntropyIsSound(sums))) MendEntropy(s, sums);
  int side = 0;
  if (p.band.after == 0 || begin + kRows - 1 <= first) side = 1;
  if (begin > first + 15) side = -1;
  AddTile<true, true>(rows, sums, s, column, position - column, side);
}

template <class T, int kDim, int kValueDim>
__global__ __launch_bounds__(kThreads) void ForwardKernel(
    const __grid_constant__ ForwardParams p) {
  constexpr int kDepth = kStages<kDim, kValueDim>;
  extern __shared__ __align__(128) uint8_t raw[];
  auto& shared = *reinterpret_cast<ForwardShared<T, kDim, kValueDim>*>(raw);
  const Task t = MakeTask(p, blockIdx.x, kRows, kRows);
  const T* q =
      RowsOf<T>(p.q, p.packed, t.sequence, t.extent.query_start, t.head);
  const int kv_head = t.head / p.queries_per_kv;
  const T* k =
      RowsOf<T>(p.k, p.packed, t.sequence, t.extent.key_start, kv_head);
  const T* v =
      RowsOf<T>(p.v, p.packed, t.sequence, t.extent.key_start, kv_head);
  const auto load = [&](int step) {
    const int begin = t.walk.Tile(step) * kRows;
    const int stage = step % kDepth;
    LoadTile(shared.k[stage], k + begin * p.k.row, p.k.row,
             t.extent.key_len - begin, p.head_dim);
    LoadTile(shared.v[stage], v + begin * p.v.row, p.v.row,
             t.extent.key_len - begin, p.value_dim);
  };
  const int row = 16 * (threadIdx.x / 32);
  float o[kValueDim / 2] = {};
  Rows<true> rows;
  if (t.count > 0) {
    LoadTile(shared.q, q + t.first_query * p.q.row, p.q.row,
             t.extent.query_len - t.first_query, p.head_dim);
    load(0);
    CopyCommit();
  }
  for (int step = 0; step < t.count; ++step) {
    CopyWait<0>();
    __syncthreads();
    if (kDepth == 2 && step + 1 < t.count) {
      load(step + 1);
      CopyCommit();
    }
    const int stage = step % kDepth;
    float s[32] = {};
    RowProduct<T, kDim>(s, shared.q, row, shared.k[stage]);
    float alphas[2] = {1, 1};
    TreatTile(p, t, s, rows, t.first_query + row + t.extent.offset,
              t.walk.Tile(step) * kRows, alphas);
#pragma unroll
    for (int i = 0; i < kValueDim / 2; ++i) o[i] *= alphas[(i / 2) % 2];
    uint32_t a[4][4];
    AsOperand<T>(s, a);
    ColumnProduct<T, kValueDim, kValueDim>(o, a, shared.v[stage], 0);
    if (kDepth == 1 && step + 1 < t.count) {
      __syncthreads();
      load(step + 1);
      CopyCommit();
    }
  }
  RowPlace place;
  place.sequence = p.packed ? 0 : t.sequence;
  place.head = t.head;
  place.query = t.first_query + row + threadIdx.x % 32 / 4;
  place.row = t.extent.query_start + place.query;
  place.inside = place.counts = true;
  FinishRows<T, kValueDim, true>(p, rows, o, place, t.extent.query_len,
                                 p.packed ? t.extent.query_len : p.query_len);
}

}  // namespace headwise::attention_cuda::sm80
