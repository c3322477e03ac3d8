// Finishes the 16 rows of a warp: adds up the four lanes of a row, writes
// statistics, and the output through its gate.
#pragma once

#include "headwise/ops/attention/cuda/device/mma.cuh"
#include "headwise/ops/attention/cuda/device/sink.cuh"
#include "headwise/ops/attention/cuda/device/softmax.cuh"
#include "headwise/ops/attention/cuda/params.h"

namespace headwise::attention_cuda {

__device__ inline float QuadSum(float v) {
  v += __shfl_xor_sync(~0u, v, 1);
  return v + __shfl_xor_sync(~0u, v, 2);
}

__device__ inline float WarpSum(float v) {
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) {
    v += __shfl_xor_sync(~0u, v, lane);
  }
  return v;
}

// Where a row lies.
struct RowPlace {
  int sequence, head, query;  // query within its sequence
  int row;                    // of the views: the same, but for packed input
  bool inside;                // a row of the views
  bool counts;                // and a query of its sequence

  // The thread's row r, given row 0; the views have rows_len rows of the
  // sequence, which has query_len queries.
  __device__ RowPlace Row(int r, int query_len, int rows_len) const {
    RowPlace at = *this;
    at.query += 8 * r;
    at.row += 8 * r;
    at.inside = at.query < rows_len;
    at.counts = at.query < query_len;
    return at;
  }
};

__device__ inline void Put(const RowResult& result, const RowPlace& at,
                           float value) {
  if (result.data == nullptr) return;
  static_cast<float*>(result.data)[at.sequence * result.batch +
                                   at.head * result.head + at.row] = value;
}

// Writes a whole row's statistics; a NaN among its scores makes all NaN.
template <bool kStatistics>
__device__ inline void WriteStatistics(const ForwardParams& p,
                                       const RowPartial& row, const RowEnd& end,
                                       const RowPlace& at) {
  const bool seen = row.sum != 0;
  Put(p.lse, at, seen ? kLn2 * (row.reference + end.log) : -INFINITY);
  if (!kStatistics) return;
  const float entropy = kLn2 * EntropyOf(row, end);
  const float best = row.best * end.inverse;
  Put(p.entropy, at, !seen ? 0 : entropy < 0 ? 0 : entropy);
  Put(p.max_probability, at, !seen ? 0 : best > 1 ? 1 : best);
  Put(p.distance, at, seen ? row.distance * end.inverse : 0);
  if (p.argmax.data != nullptr) {
    static_cast<int*>(p.argmax.data)[at.sequence * p.argmax.batch +
                                     at.head * p.argmax.head + at.row] =
        seen ? row.place : -1;
  }
}

// Row r's sums over its four lanes.
template <bool kStatistics>
__device__ inline RowPartial GatherRow(const Rows<kStatistics>& rows, int r) {
  RowPartial row{rows.reference[r], QuadSum(rows.sum[r]), 0, 0, 0, -1};
  if (kStatistics) {
    row.entropy = QuadSum(rows.entropy[r]);
    row.distance = QuadSum(rows.distance[r]);
    row.best = rows.best[r];
    row.place = rows.place[r];
#pragma unroll
    for (int lane = 1; lane < 4; lane *= 2) {
      const float other = __shfl_xor_sync(~0u, row.best, lane);
      const int key = __shfl_xor_sync(~0u, row.place, lane);
      const bool take =
          other > row.best || (other == row.best && key < row.place);
      row.place = take ? key : row.place;
      row.best = take ? other : row.best;
    }
  }
  return row;
}

// Writes row r's statistics from lane 0 of its four. Returns by what its sums
// are to be scaled, 0 for a row that sees nothing.
template <bool kStatistics>
__device__ inline float FinishRow(const ForwardParams& p,
                                  const Rows<kStatistics>& rows, int r,
                                  const RowPlace& at) {
  RowPartial row = GatherRow(rows, r);
  if (!at.counts) row.sum = 0;
  const RowEnd end = EndOf(p, row, at.head);
  if (at.inside && threadIdx.x % 4 == 0) {
    WriteStatistics<kStatistics>(p, row, end, at);
  }
  return end.inverse;
}

// Lane t of four holds columns 8k + 2t of words w[k], k = 0 … 3, and gets all
// 8 columns of k = t: a 4 × 4 transpose among the lanes.
__device__ inline uint4 GatherColumns(uint32_t w0, uint32_t w1, uint32_t w2,
                                      uint32_t w3) {
  const bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
  const uint32_t a = __shfl_xor_sync(~0u, odd ? w0 : w1, 1);
  const uint32_t b = __shfl_xor_sync(~0u, odd ? w2 : w3, 1);
  if (odd) {
    w0 = a, w2 = b;
  } else {
    w1 = a, w3 = b;
  }
  const uint32_t c = __shfl_xor_sync(~0u, high ? w0 : w2, 2);
  const uint32_t d = __shfl_xor_sync(~0u, high ? w1 : w3, 2);
  if (high) {
    w0 = c, w1 = d;
  } else {
    w2 = c, w3 = d;
  }
  return make_uint4(w0, w1, w2, w3);
}

// The first `columns` of row r of o [16 × kDim] as scale · o + add_scale · add.
template <class T, int kDim>
__device__ inline void StoreRow(const float (&o)[kDim / 2], int r, float scale,
                                const float* add, float add_scale, T* to,
                                int columns, bool inside) {
  const int lane = threadIdx.x % 4;
#pragma unroll
  for (int q = 0; q < kDim / 32; ++q) {
    uint32_t w[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int i = 4 * (4 * q + k) + 2 * r;
      // A scale of 0 closes the row whatever it holds.
      float low = scale != 0 ? o[i] * scale : 0;
      float high = scale != 0 ? o[i + 1] * scale : 0;
      const int column = 8 * (4 * q + k) + 2 * lane;
      if (add != nullptr && inside && column < columns) {
        low = fmaf(add_scale, add[column], low);
        high = fmaf(add_scale, add[column + 1], high);
      }
      w[k] = Pack<T>(low, high);
    }
    const uint4 v = GatherColumns(w[0], w[1], w[2], w[3]);
    if (inside && 8 * (4 * q + lane) < columns) {
      *reinterpret_cast<uint4*>(to + 8 * (4 * q + lane)) = v;
    }
  }
}

template <class T, int kDim, bool kStatistics>
__device__ inline void FinishRows(const ForwardParams& p,
                                  const Rows<kStatistics>& rows,
                                  const float (&o)[kDim / 2], RowPlace at,
                                  int query_len, int rows_len) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const RowPlace here = at.Row(r, query_len, rows_len);
    const float inverse = FinishRow<kStatistics>(p, rows, r, here);
    const int64_t s = here.sequence, h = here.head, m = here.row;
    float gate = 1;
    const float* add = nullptr;
    if (p.gates != nullptr && here.inside && here.counts) {
      gate = p.gates[s * p.gate_batch + m * p.gate_row + h * p.gate_head];
      if (p.replacement != nullptr) {
        add = p.replacement + s * p.replacement_batch + m * p.replacement_row +
              h * p.replacement_head;
      }
    }
    T* out = static_cast<T*>(p.out.data) + s * p.out.batch + m * p.out.row +
             h * p.out.head;
    StoreRow<T, kDim>(o, r, gate * inverse, add, 1 - gate, out, p.value_dim,
                      here.inside);
    if (p.ungated.data != nullptr) {
      T* ungated = static_cast<T*>(p.ungated.data) + s * p.ungated.batch +
                   m * p.ungated.row + h * p.ungated.head;
      StoreRow<T, kDim>(o, r, inverse, nullptr, 0, ungated, p.value_dim,
                        here.inside);
    }
  }
}

}  // namespace headwise::attention_cuda
