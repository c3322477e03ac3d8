// The plain backward pass of keys: dk, dv and received attention. A warp has a
// key and walks over the queries of all heads that share it, head by head, so
// that sums have one order. Door: launch.h.
#include "headwise/backend/cuda/backend.h"
#include "headwise/ops/attention/cuda/plain/gradient.cuh"

namespace headwise::attention_cuda {
namespace plain {
namespace {

// The warp's key of one key/value head.
struct KeyPlace {
  int sequence, kv_head, key;
  int64_t batch, row;
  bool inside;  // the views have a row for it
  bool counts;  // and it is not past its sequence's length
  Extent extent;
  int begin, end;  // the block's keys that count

  __device__ int64_t At(const Strided& view) const {
    return batch * view.batch + row * view.row + kv_head * view.head;
  }
};

__device__ inline KeyPlace KeyPlaceOf(const BackwardParams& b, int block,
                                      int64_t index) {
  const ForwardParams& f = b.forward;
  KeyPlace at;
  at.kv_head = static_cast<int>(index % b.kv_heads);
  at.sequence = static_cast<int>(index / b.kv_heads);
  at.extent = ExtentOf(f, at.sequence);
  at.begin = block * kRows;
  at.end = Min(at.extent.key_len, at.begin + kRows);
  at.key = at.begin + Warp();
  at.batch = f.packed ? 0 : at.sequence;
  at.row = static_cast<int64_t>(at.extent.key_start) + at.key;
  at.inside = at.key < (f.packed ? at.extent.key_len : f.key_len);
  at.counts = at.key < at.extent.key_len;
  return at;
}

// What a key gets from the queries of one head. dk and dv: the columns from
// `first` on. Returns the mass that it receives, the lane's part.
struct KeySums {
  Columns dk = {}, dv = {};
  double received = 0;
};

__device__ inline void AddHead(const PlainBackwardParams& p, Shared& shared,
                               const KeyPlace& at, int head, int first,
                               KeySums& sums) {
  const BackwardParams& b = p.backward;
  const ForwardParams& f = b.forward;
  const int queries = at.extent.query_len;
  const Rows q =
      RowsOf(f.q, f.element, at.batch, at.extent.query_start, head, f.head_dim);
  const Rows dout = RowsOf(b.dout, f.element, at.batch, at.extent.query_start,
                           head, f.value_dim);
  const Rows k = RowsOf(f.k, f.element, at.batch, at.extent.key_start,
                        at.kv_head, f.head_dim);
  const Rows v = RowsOf(f.v, f.element, at.batch, at.extent.key_start,
                        at.kv_head, f.value_dim);
  const bool wants_dk = b.dk.data != nullptr, wants_dv = b.dv.data != nullptr;
  for (int begin = 0; begin < queries; begin += kTile) {
    const int last = Min(begin + kTile, queries) - 1;
    if (!Meet(f.band, begin + at.extent.offset, last + at.extent.offset,
              at.begin, at.end)) {
      continue;
    }
    const int query = begin + Lane();
    const int position = query + at.extent.offset;
    const int64_t row = static_cast<int64_t>(at.extent.query_start) + query;
    RowGradient of;
    if (query < queries) {
      of = ReadRow(p, at.sequence, at.batch, head, query, row, true);
    }
    const float s = TileDot(shared, k, at.key, at.counts, q, begin, queries);
    const bool seen = query < queries && of.lse != -INFINITY &&
                      Sees(f.band, position, at.key, at.extent.key_len);
    const Pair pair = PairOf(f, head, s, position - at.key, of.lse);
    if (seen && isfinite(of.lse)) {
      const float weight =
          p.weights.data != nullptr ? *p.weights.At(at.batch, row, 0) : 1;
      sums.received += static_cast<double>(weight) * pair.probability;
    }
    const unsigned mask = __ballot_sync(~0u, seen);
    if (wants_dk) {
      const float dp =
          TileDot(shared, v, at.key, at.counts, dout, begin, queries);
      const float dz = seen ? ScoreGradient(of, pair, dp) : 0;
      AddTile(
          shared, dz * pair.slope * f.scale, mask, first, f.head_dim, sums.dk,
          [&](int column) { StageTile(shared, q, begin, queries, column); });
    }
    if (wants_dv) {
      AddTile(
          shared, pair.probability * of.gate, mask, first, f.value_dim, sums.dv,
          [&](int column) { StageTile(shared, dout, begin, queries, column); });
    }
  }
}

__device__ inline void KeysBlock(const PlainBackwardParams& p, Shared& shared,
                                 int chunk, int block, int64_t index) {
  const BackwardParams& b = p.backward;
  const ForwardParams& f = b.forward;
  const KeyPlace at = KeyPlaceOf(b, block, index);
  const int first = chunk * kColumns;
  KeySums sums;
  for (int n = 0; n < f.queries_per_kv; ++n) {
    const int head = at.kv_head * f.queries_per_kv + n;
    if (b.is_active != nullptr && b.is_active[head] == 0) continue;
    sums.received = 0;
    AddHead(p, shared, at, head, first, sums);
    const double received = SumOfWarp(sums.received);
    if (b.received.data != nullptr && chunk == 0 && at.inside && Lane() == 0) {
      static_cast<float*>(b.received.data)[at.batch * b.received.batch +
                                           head * b.received.head + at.row] =
          static_cast<float>(received);
    }
  }
  if (!at.inside) return;
  ForColumns(sums.dk, first, b.dk.data != nullptr ? f.head_dim : 0,
             [&](int c, float value) {
               StoreElement(b.dk.data, at.At(b.dk) + c, f.element, value);
             });
  ForColumns(sums.dv, first, b.dv.data != nullptr ? f.value_dim : 0,
             [&](int c, float value) {
               StoreElement(b.dv.data, at.At(b.dv) + c, f.element, value);
             });
}

// Items: chunks of columns, then blocks of keys, key/value heads, sequences.
__global__ __launch_bounds__(kThreads) void KeysKernel(
    const __grid_constant__ PlainBackwardParams p, int chunks, int blocks,
    int64_t items) {
  __shared__ Shared shared;
  for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    const int chunk = static_cast<int>(item % chunks);
    const int block = static_cast<int>(item / chunks % blocks);
    KeysBlock(p, shared, chunk, block, item / chunks / blocks);
  }
}

}  // namespace
}  // namespace plain

void LaunchPlainKeys(const PlainBackwardParams& params, cudaStream_t stream) {
  const BackwardParams& b = params.backward;
  const ForwardParams& f = b.forward;
  const int columns = Max(b.dk.data != nullptr ? f.head_dim : 1,
                          b.dv.data != nullptr ? f.value_dim : 1);
  const int chunks = CeilDiv(columns, plain::kColumns);
  const int blocks = CeilDiv(f.key_len, plain::kRows);
  const int64_t items =
      static_cast<int64_t>(chunks) * blocks * b.kv_heads * b.sequences;
  if (items == 0) return;
  plain::KeysKernel<<<plain::GridFor(items), plain::kThreads, 0, stream>>>(
      params, chunks, blocks, items);
  CheckCuda(cudaGetLastError(), "attention cuda.plain backward");
}

}  // namespace headwise::attention_cuda
