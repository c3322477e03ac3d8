// The plain backward pass of queries: δ and the entropy of a row in one walk
// over its keys, then dq, and what lies at the ends of a relative table, in a
// second. Probabilities come from the LSE. Door: launch.h.
#include "headwise/backend/cuda/backend.h"
#include "headwise/ops/attention/cuda/plain/gradient.cuh"

namespace headwise::attention_cuda {
namespace plain {
namespace {

struct RowWalk {
  const ForwardParams& f;
  const QueryPlace& at;
  Rows q, k, dout, v;

  __device__ RowWalk(const BackwardParams& b, const QueryPlace& place)
      : f(b.forward),
        at(place),
        q(RowsOf(f.q, f.element, at.batch, at.extent.query_start, at.head,
                 f.head_dim)),
        k(RowsOf(f.k, f.element, at.batch, at.extent.key_start,
                 at.head / f.queries_per_kv, f.head_dim)),
        dout(RowsOf(b.dout, f.element, at.batch, at.extent.query_start, at.head,
                    f.value_dim)),
        v(RowsOf(f.v, f.element, at.batch, at.extent.key_start,
                 at.head / f.queries_per_kv, f.value_dim)) {}

  // Calls visit(begin, seen, pair, dp) for each tile, the last three of the
  // lane's key; dp = ⟨dout, v⟩.
  template <class Visit>
  __device__ void ForPairs(Shared& shared, float lse,
                           const Visit& visit) const {
    ForKeyTiles(f, at, [&](int begin) {
      const int keys = at.extent.key_len, key = begin + Lane();
      const float s = TileDot(shared, q, at.query, at.counts, k, begin, keys);
      const float dp =
          TileDot(shared, dout, at.query, at.counts, v, begin, keys);
      const bool seen =
          at.counts && lse != -INFINITY && Sees(f.band, at.position, key, keys);
      visit(begin, seen, PairOf(f, at.head, s, at.position - key, lse), dp);
    });
  }
};

// ⟨dout, μ⟩ of a row that counts. By the whole warp.
__device__ inline float WithReplacement(const RowWalk& walk) {
  const float* mu = walk.at.Replacement(walk.f);
  if (mu == nullptr) return 0;
  float sum = 0;
  for (int c = Lane(); c < walk.dout.width; c += 32) {
    sum = fmaf(walk.dout.At(walk.at.query, c), mu[c], sum);
  }
  return SumOfWarp(sum);
}

// The row's own results and scratch. mean: ⟨dout, O⟩. By the whole warp.
__device__ inline void StoreRowScalars(const PlainBackwardParams& p,
                                       const RowWalk& walk,
                                       const RowGradient& row, double mean) {
  const BackwardParams& b = p.backward;
  const QueryPlace& at = walk.at;
  if (!at.inside) return;
  const float with_mu = at.counts ? WithReplacement(walk) : 0;
  if (Lane() != 0) return;
  const int64_t scratch = ScratchAt(b, at.sequence, at.head, at.query);
  p.delta[scratch] = row.delta;
  p.entropy[scratch] = row.entropy;
  if (b.dgates != nullptr) {
    b.dgates[at.batch * b.dgate_batch + at.row * b.dgate_row +
             at.head * b.dgate_head] =
        at.counts ? static_cast<float>(mean - with_mu) : 0;
  }
}

__device__ inline void RowsBlock(const PlainBackwardParams& p, Shared& shared,
                                 int chunk, int block, int64_t index) {
  const BackwardParams& b = p.backward;
  const ForwardParams& f = b.forward;
  const QueryPlace at = PlaceOf(f, block, index);
  const RowWalk walk(b, at);
  RowGradient row;
  if (at.counts) {
    row = ReadRow(p, at.sequence, at.batch, at.head, at.query, at.row, false);
  }
  double mean = 0, entropy = 0;
  walk.ForPairs(shared, row.lse,
                [&](int, bool seen, const Pair& pair, float dp) {
                  if (!seen || pair.probability == 0) return;
                  const double w = pair.probability;
                  mean += w * dp;
                  entropy -= w * pair.log_probability;
                });
  mean = SumOfWarp(mean);
  // ∂H/∂A is −(ln A + 1), whose −1 cancels in ∂L/∂z but for the sink's share.
  row.entropy =
      static_cast<float>(SumOfWarp(entropy)) + SinkShare(f, at.head, row.lse);
  row.delta = static_cast<float>(row.gate * mean);
  if (chunk == 0) StoreRowScalars(p, walk, row, mean);
  if (b.dq.data == nullptr && p.ends == nullptr) return;
  const int columns = b.dq.data != nullptr ? f.head_dim : 0;
  double low = 0, high = 0;
  Columns dq = {};
  walk.ForPairs(
      shared, row.lse, [&](int begin, bool seen, const Pair& pair, float dp) {
        const float dz = seen ? ScoreGradient(row, pair, dp) : 0;
        const int distance = begin + Lane() - at.position;
        if (distance <= -f.shape.reach) {
          low += dz;
        } else if (distance >= f.shape.reach) {
          high += dz;
        }
        AddTile(shared, dz * pair.slope * f.scale, __ballot_sync(~0u, seen),
                chunk * kColumns, columns, dq, [&](int column) {
                  StageTile(shared, walk.k, begin, at.extent.key_len, column);
                });
      });
  if (!at.inside) return;
  ForColumns(dq, chunk * kColumns, columns, [&](int c, float value) {
    StoreElement(b.dq.data, at.At(b.dq) + c, f.element, value);
  });
  if (p.ends == nullptr || chunk != 0) return;
  low = SumOfWarp(low);
  high = SumOfWarp(high);
  if (Lane() != 0) return;
  double* ends = p.ends + 2 * ScratchAt(b, at.sequence, at.head, at.query);
  ends[0] = low;
  ends[1] = high;
}

// Items: chunks of columns, then blocks of queries, active heads, sequences.
__global__ __launch_bounds__(kThreads) void RowsKernel(
    const __grid_constant__ PlainBackwardParams p, int chunks, int64_t items) {
  __shared__ Shared shared;
  const int blocks = p.backward.forward.order.blocks;
  for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    const int chunk = static_cast<int>(item % chunks);
    const int block = static_cast<int>(item / chunks % blocks);
    RowsBlock(p, shared, chunk, block, item / chunks / blocks);
  }
}

}  // namespace
}  // namespace plain

void LaunchPlainRows(const PlainBackwardParams& params, cudaStream_t stream) {
  const ForwardParams& f = params.backward.forward;
  const int chunks = params.backward.dq.data != nullptr
                         ? CeilDiv(f.head_dim, plain::kColumns)
                         : 1;
  const int64_t items = static_cast<int64_t>(chunks) * f.order.blocks *
                        f.order.heads * f.order.sequences;
  if (items == 0) return;
  plain::RowsKernel<<<plain::GridFor(items), plain::kThreads, 0, stream>>>(
      params, chunks, items);
  CheckCuda(cudaGetLastError(), "attention cuda.plain backward");
}

}  // namespace headwise::attention_cuda
