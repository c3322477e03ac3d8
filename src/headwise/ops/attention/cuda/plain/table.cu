// The plain gradient of a relative table: a block an entry. An entry between
// the ends has one key a query, whose ∂L/∂z a warp makes again; what belongs to
// the ends the rows' kernel has summed row by row. Door: launch.h.
#include "headwise/backend/cuda/backend.h"
#include "headwise/ops/attention/cuda/plain/gradient.cuh"

namespace headwise::attention_cuda {
namespace plain {
namespace {

// Σ over columns of row a of `left` times row b of `right`. By the whole warp.
__device__ inline float WarpDot(const Rows& left, int a, const Rows& right,
                                int b) {
  float sum = 0;
  for (int c = Lane(); c < left.width; c += 32) {
    sum = fmaf(left.At(a, c), right.At(b, c), sum);
  }
  return SumOfWarp(sum);
}

// ∂L/∂z of one sequence's pairs that are `distance` apart, key minus position:
// every kRows-th query's. The same in all lanes of a warp.
__device__ inline double SumDiagonal(const PlainBackwardParams& p, int sequence,
                                     int head, int distance) {
  const BackwardParams& b = p.backward;
  const ForwardParams& f = b.forward;
  const Extent extent = ExtentOf(f, sequence);
  const int64_t batch = f.packed ? 0 : sequence;
  const int kv_head = head / f.queries_per_kv;
  const Rows q =
      RowsOf(f.q, f.element, batch, extent.query_start, head, f.head_dim);
  const Rows dout =
      RowsOf(b.dout, f.element, batch, extent.query_start, head, f.value_dim);
  const Rows k =
      RowsOf(f.k, f.element, batch, extent.key_start, kv_head, f.head_dim);
  const Rows v =
      RowsOf(f.v, f.element, batch, extent.key_start, kv_head, f.value_dim);
  double sum = 0;
  for (int query = Warp(); query < extent.query_len; query += kRows) {
    const int position = query + extent.offset;
    const int key = position + distance;
    if (key < 0 || !Sees(f.band, position, key, extent.key_len)) continue;
    const int64_t row = static_cast<int64_t>(extent.query_start) + query;
    const RowGradient of = ReadRow(p, sequence, batch, head, query, row, true);
    if (of.lse == -INFINITY) continue;
    const Pair pair =
        PairOf(f, head, WarpDot(q, query, k, key), -distance, of.lse);
    sum += ScoreGradient(of, pair, WarpDot(dout, query, v, key));
  }
  return sum;
}

// One end's part of one sequence, every thread a row in kThreads.
__device__ inline double SumEnd(const PlainBackwardParams& p, int sequence,
                                int head, int end) {
  const BackwardParams& b = p.backward;
  const Extent extent = ExtentOf(b.forward, sequence);
  double sum = 0;
  for (int query = threadIdx.x; query < extent.query_len; query += kThreads) {
    sum += p.ends[2 * ScratchAt(b, sequence, head, query) + end];
  }
  return sum;
}

__device__ inline void SumEntry(const PlainBackwardParams& p, double* shared,
                                int head_index, int entry) {
  const BackwardParams& b = p.backward;
  const ForwardParams& f = b.forward;
  const int head =
      f.active_heads != nullptr ? f.active_heads[head_index] : head_index;
  const int reach = f.shape.reach;
  double sum = 0;
  for (int sequence = 0; sequence < b.sequences; ++sequence) {
    if (entry == 0) sum += SumEnd(p, sequence, head, 0);
    if (entry == 2 * reach) sum += SumEnd(p, sequence, head, 1);
    if (entry != 0 && entry != 2 * reach) {
      const double part = SumDiagonal(p, sequence, head, entry - reach);
      if (Lane() == 0) sum += part;
    }
  }
  __syncthreads();
  shared[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  double total = 0;
  for (int i = 0; i < kThreads; ++i) total += shared[i];
  b.dtable[head * b.dtable_head + entry] += static_cast<float>(total);
}

// Items: entries, then active heads.
__global__ __launch_bounds__(kThreads) void TableKernel(
    const __grid_constant__ PlainBackwardParams p, int width, int64_t items) {
  __shared__ double shared[kThreads];
  for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    SumEntry(p, shared, static_cast<int>(item / width),
             static_cast<int>(item % width));
  }
}

}  // namespace
}  // namespace plain

void LaunchPlainTable(const PlainBackwardParams& params, cudaStream_t stream) {
  const ForwardParams& f = params.backward.forward;
  const int width = 2 * f.shape.reach + 1;
  const int64_t items = static_cast<int64_t>(width) * f.order.heads;
  if (items == 0) return;
  plain::TableKernel<<<plain::GridFor(items), plain::kThreads, 0, stream>>>(
      params, width, items);
  CheckCuda(cudaGetLastError(), "attention cuda.plain table gradient");
}

}  // namespace headwise::attention_cuda
