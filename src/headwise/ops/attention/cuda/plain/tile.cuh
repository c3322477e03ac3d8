// What the plain kernels are made of. A block has kRows warps, each with a row
// of its own (a query, or a key) that meets the rows of the other side kTile at
// a time, one a lane. The tile lies in shared memory as f32, kChunk columns at
// a time, so that rows of any width, type and stride take the same way.
//
// Everything that stages is called by all threads of a block together.
#pragma once

#include "headwise/ops/attention/cuda/device/element.cuh"
#include "headwise/ops/attention/cuda/params.h"

namespace headwise::attention_cuda::plain {

inline constexpr int kRows = kPlainRows;
inline constexpr int kThreads = 32 * kRows;
inline constexpr int kTile = 32;
inline constexpr int kChunk = 64;
inline constexpr int kParts = 4;  // chunks of a result that a block sums
inline constexpr int kColumns = kParts * kChunk;

struct Shared {
  float tile[kTile][kChunk + 1];  // a lane a row: no two in one bank
  float rows[kRows][kChunk];
};

// A lane's part of a result: columns lane and lane + 32 of each chunk.
using Columns = float[2 * kParts];

__device__ inline int Lane() { return threadIdx.x % 32; }
__device__ inline int Warp() { return threadIdx.x / 32; }

template <class T>
__device__ inline T SumOfWarp(T v) {
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) {
    v += __shfl_xor_sync(~0u, v, lane);
  }
  return v;
}

// The rows of one sequence and head in a [B, position, head, dim] view.
struct Rows {
  const void* data;
  int64_t first;  // of row 0, in elements
  int64_t step;
  int width;
  Element element;

  __device__ float At(int row, int column) const {
    return LoadElement(data, first + row * step + column, element);
  }
};

__device__ inline Rows RowsOf(const Strided& view, Element element,
                              int64_t batch, int64_t start, int64_t head,
                              int width) {
  return {view.data, batch * view.batch + start * view.row + head * view.head,
          view.row, width, element};
}

// Columns column … of rows begin … of which there are `count`; zeros elsewhere.
__device__ inline void StageTile(Shared& shared, const Rows& rows, int begin,
                                 int count, int column) {
  for (int i = threadIdx.x; i < kTile * kChunk; i += kThreads) {
    const int r = i / kChunk, c = i % kChunk;
    const bool exists = begin + r < count && column + c < rows.width;
    shared.tile[r][c] = exists ? rows.At(begin + r, column + c) : 0;
  }
}

// The product of the warp's row `own` (not looked at unless `reads`) with row
// begin + lane of `others`, of which there are `count`.
__device__ inline float TileDot(Shared& shared, const Rows& mine, int own,
                                bool reads, const Rows& others, int begin,
                                int count) {
  float sum = 0;
  for (int column = 0; column < mine.width; column += kChunk) {
    __syncthreads();
    StageTile(shared, others, begin, count, column);
    for (int c = Lane(); c < kChunk; c += 32) {
      const bool exists = reads && column + c < mine.width;
      shared.rows[Warp()][c] = exists ? mine.At(own, column + c) : 0;
    }
    __syncthreads();
    const int width = Min(kChunk, mine.width - column);
    float part = 0;
    for (int c = 0; c < width; ++c) {
      part = fmaf(shared.rows[Warp()][c], shared.tile[Lane()][c], part);
    }
    sum += part;
  }
  return sum;
}

// Adds Σ_j weight_j · (row j of a tile), over the rows in `mask`, to the warp's
// columns first … of `total`. weight: of the lane's own row. stage(column)
// stages a chunk of the tile.
template <class Stage>
__device__ inline void AddTile(Shared& shared, float weight, unsigned mask,
                               int first, int total, Columns& sums,
                               const Stage& stage) {
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const int column = first + part * kChunk;
    if (column < total) {
      __syncthreads();
      stage(column);
      __syncthreads();
      float a = 0, b = 0;
      for (int j = 0; j < kTile; ++j) {
        const float w = __shfl_sync(~0u, weight, j);
        // What is not seen may be NaN.
        if ((mask >> j) & 1) {
          a = fmaf(w, shared.tile[j][Lane()], a);
          b = fmaf(w, shared.tile[j][Lane() + 32], b);
        }
      }
      sums[2 * part] += a;
      sums[2 * part + 1] += b;
    }
  }
}

// Calls see(column, sum) for each column of the warp's below `total`.
template <class See>
__device__ inline void ForColumns(const Columns& sums, int first, int total,
                                  const See& see) {
#pragma unroll
  for (int i = 0; i < 2 * kParts; ++i) {
    const int column = first + i / 2 * kChunk + i % 2 * 32 + Lane();
    if (column < total) see(column, sums[i]);
  }
}

// Whether a query at first … last may see a key of begin … end − 1.
__device__ inline bool Meet(const Band& band, int first, int last, int begin,
                            int end) {
  return first <= last && begin < end && begin <= last + band.after &&
         (end - 1 >= first - band.before || begin < band.sinks);
}

// The warp's query of one head.
struct QueryPlace {
  int sequence, head_index, head, query, position;
  int64_t batch, row;
  bool inside;  // the views have a row for it
  bool counts;  // and it is not past its sequence's length
  Extent extent;
  int first, last;  // positions of the block's queries that count

  __device__ int64_t At(const RowResult& r) const {
    return batch * r.batch + head * r.head + row;
  }
  __device__ int64_t At(const Strided& view) const {
    return batch * view.batch + row * view.row + head * view.head;
  }
  __device__ float Gate(const ForwardParams& f) const {
    if (f.gates == nullptr || !inside) return 1;
    return f
        .gates[batch * f.gate_batch + row * f.gate_row + head * f.gate_head];
  }
  // μ of the row, or null.
  __device__ const float* Replacement(const ForwardParams& f) const {
    if (f.replacement == nullptr) return nullptr;
    return f.replacement + batch * f.replacement_batch +
           row * f.replacement_row + head * f.replacement_head;
  }
};

// Block `block` of queries of the index-th (active head, sequence).
__device__ inline QueryPlace PlaceOf(const ForwardParams& f, int block,
                                     int64_t index) {
  QueryPlace at;
  at.head_index = static_cast<int>(index % f.order.heads);
  at.sequence = static_cast<int>(index / f.order.heads);
  at.head =
      f.active_heads != nullptr ? f.active_heads[at.head_index] : at.head_index;
  at.extent = ExtentOf(f, at.sequence);
  const int first_query = block * kRows;
  at.query = first_query + Warp();
  at.position = at.query + at.extent.offset;
  at.batch = f.packed ? 0 : at.sequence;
  at.row = static_cast<int64_t>(at.extent.query_start) + at.query;
  at.inside = at.query < (f.packed ? at.extent.query_len : f.query_len);
  at.counts = at.query < at.extent.query_len;
  at.first = first_query + at.extent.offset;
  at.last =
      Min(at.extent.query_len, first_query + kRows) - 1 + at.extent.offset;
  return at;
}

// Calls visit(begin) for each tile of keys that a query of the block may see.
template <class Visit>
__device__ inline void ForKeyTiles(const ForwardParams& f, const QueryPlace& at,
                                   const Visit& visit) {
  const int keys = at.extent.key_len;
  for (int begin = 0; begin < keys; begin += kTile) {
    if (Meet(f.band, at.first, at.last, begin, Min(begin + kTile, keys))) {
      visit(begin);
    }
  }
}

// Blocks of a grid for so many items, which a kernel takes in steps.
inline unsigned GridFor(int64_t items) {
  const int64_t most = int64_t{1} << 30;
  return static_cast<unsigned>(items < most ? items : most);
}

}  // namespace headwise::attention_cuda::plain
