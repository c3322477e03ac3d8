// The plain forward pass: the softmax of a row in one walk over its keys, then
// probabilities, outputs and everything observed in a second. A block's results
// are kColumns columns of values and features side by side. Door: launch.h.
#include "headwise/backend/cuda/backend.h"
#include "headwise/ops/attention/cuda/device/score.cuh"
#include "headwise/ops/attention/cuda/plain/launch.h"
#include "headwise/ops/attention/cuda/plain/observed.cuh"

namespace headwise::attention_cuda {
namespace plain {
namespace {

// NaN before any number.
__device__ inline float LargerOf(float a, float b) {
  return isnan(a) ? a : isnan(b) ? b : fmaxf(a, b);
}

// One score more under a running maximum. NaN and +∞ make the sum NaN.
__device__ inline void AddScore(float z, float& maximum, float& sum) {
  if (z == -INFINITY) return;
  if (z > maximum || isnan(z)) {
    sum = sum * expf(maximum - z) + 1;
    maximum = z;
  } else {
    sum += expf(z - maximum);
  }
}

// Parts of one block: a row's keys and what it is compared with.
struct Walk {
  const ForwardParams& f;
  const QueryPlace& at;
  Rows q, k;

  __device__ Walk(const ForwardParams& forward, const QueryPlace& place)
      : f(forward),
        at(place),
        q(RowsOf(f.q, f.element, at.batch, at.extent.query_start, at.head,
                 f.head_dim)),
        k(RowsOf(f.k, f.element, at.batch, at.extent.key_start,
                 at.head / f.queries_per_kv, f.head_dim)) {}

  __device__ bool Sees(int key) const {
    return at.counts &&
           attention_cuda::Sees(f.band, at.position, key, at.extent.key_len);
  }
  // z of key begin + lane, whether it is seen or not.
  __device__ float Score(Shared& shared, int begin) const {
    const float s =
        TileDot(shared, q, at.query, at.counts, k, begin, at.extent.key_len);
    return ShapeScore(f, at.head, s, at.position - (begin + Lane())).z;
  }
};

__device__ inline RowState Softmax(const Walk& walk, Shared& shared) {
  float maximum = -INFINITY, sum = 0;
  ForKeyTiles(walk.f, walk.at, [&](int begin) {
    const float z = walk.Score(shared, begin);
    if (walk.Sees(begin + Lane())) AddScore(z, maximum, sum);
  });
  RowState row;
  float& reference = row.reference;
  reference = maximum;
  for (int lane = 16; lane > 0; lane /= 2) {
    const float other = __shfl_xor_sync(~0u, reference, lane);
    reference = LargerOf(reference, other);
  }
  row.reads = reference != -INFINITY;
  const float* sinks = walk.f.sink_logits;
  const float logit = sinks != nullptr ? sinks[walk.at.head] : -INFINITY;
  if (row.reads && logit > reference) reference = logit;
  const bool adds = row.reads && maximum != -INFINITY;
  row.sum = SumOfWarp(adds ? sum * expf(maximum - reference) : 0.0f);
  if (sinks != nullptr) row.sum += row.Sink(logit);
  if (reference == INFINITY) row.sum = NAN;
  if (row.reads) row.lse = reference + logf(row.sum);
  row.finite = row.reads && isfinite(row.lse);
  return row;
}

// Where columns of values end and features begin.
struct OutputColumns {
  int first, values, total;
};

// The tile's chunk of values and features from `column` on.
__device__ inline void StageValues(Shared& shared, const ObserveParams& p,
                                   const QueryPlace& at, const Rows& v,
                                   int begin, int column) {
  const int keys = at.extent.key_len;
  for (int i = threadIdx.x; i < kTile * kChunk; i += kThreads) {
    const int r = i / kChunk, c = column + i % kChunk;
    const int feature = c - v.width;
    float x = 0;
    if (begin + r < keys && c < v.width) {
      x = v.At(begin + r, c);
    } else if (begin + r < keys && feature < p.feature_count) {
      const int64_t row = static_cast<int64_t>(at.extent.key_start) + begin + r;
      x = *p.features.At(at.batch, row, feature);
    }
    shared.tile[r][i % kChunk] = x;
  }
}

__device__ inline void StoreOutput(const ObserveParams& p, const QueryPlace& at,
                                   const RowState& row,
                                   const OutputColumns& columns,
                                   const Columns& sums) {
  const ForwardParams& f = p.forward;
  if (!at.inside) return;
  const float gate = at.Gate(f);
  const float* mu = at.Replacement(f);
  ForColumns(sums, columns.first, columns.total, [&](int c, float o) {
    if (c >= columns.values) {
      if (p.feature_mass.data != nullptr) {
        p.feature_mass.At(at.batch, at.head, at.row)[c - columns.values] =
            row.Stored(o);
      }
      return;
    }
    float out = gate * o;
    if (mu != nullptr) out += (1 - gate) * mu[c];
    StoreElement(f.out.data, at.At(f.out) + c, f.element, at.counts ? out : 0);
    if (f.ungated.data != nullptr) {
      StoreElement(f.ungated.data, at.At(f.ungated) + c, f.element, o);
    }
  });
}

// Weighted sums over the block's rows: of the histogram and labels by the block
// of the first columns, of features by each. By the whole block.
__device__ inline void SumBlock(const ObserveParams& p, Shared& shared,
                                const QueryPlace& at, int block,
                                const RowState& row, const Observed& o,
                                const OutputColumns& columns,
                                const Columns& sums) {
  double* to =
      p.partials + ((static_cast<int64_t>(at.sequence) * p.forward.order.heads +
                     at.head_index) *
                        p.blocks +
                    block) *
                       p.width;
  const float weight = row.finite && p.weights.data != nullptr
                           ? *p.weights.At(at.batch, at.row, 0)
                           : 1;
  const int column = threadIdx.x;
  if (columns.first == 0) {
    double sum = SumOverRows(shared, row.Summed(weight, o.bucket[0]),
                             row.Summed(weight, o.bucket[1]));
    if (column < kBuckets) to[column] = sum;
    double label = 0;
#pragma unroll
    for (int l = 0; l < kMostLabels; ++l) {
      if (Lane() == l) label = o.label[l];
    }
    sum = SumOverRows(shared, row.Summed(weight, label), 0);
    if (column < p.label_count) to[kBuckets + p.feature_count + column] = sum;
  }
#pragma unroll
  for (int part = 0; part < kParts; ++part) {
    const int begin = columns.first + part * kChunk;
    if (begin < columns.total && begin + kChunk > columns.values) {
      const double sum = SumOverRows(shared, row.Summed(weight, sums[2 * part]),
                                     row.Summed(weight, sums[2 * part + 1]));
      const int feature = begin + column - columns.values;
      if (column < kChunk && feature >= 0 && feature < p.feature_count) {
        to[kBuckets + feature] = sum;
      }
    }
  }
}

__device__ inline void ForwardBlock(const ObserveParams& p, bool observes,
                                    Shared& shared, int chunk, int block,
                                    int64_t index) {
  const ForwardParams& f = p.forward;
  const QueryPlace at = PlaceOf(f, block, index);
  const Walk walk(f, at);
  const Rows v = RowsOf(f.v, f.element, at.batch, at.extent.key_start,
                        at.head / f.queries_per_kv, f.value_dim);
  const RowState row = Softmax(walk, shared);
  const OutputColumns columns{chunk * kColumns, f.value_dim,
                              f.value_dim + p.feature_count};
  const bool gathers = observes && chunk == 0;
  const bool has_histogram =
      gathers && (p.histogram.data != nullptr || p.partials != nullptr);
  Observed o;
  Columns sums = {};
  ForKeyTiles(f, at, [&](int begin) {
    const int key = begin + Lane();
    const float z = walk.Score(shared, begin);
    const bool seen = row.reads && walk.Sees(key);
    const float x = z - row.reference;
    const float e = seen ? expf(x) : 0;
    const float probability = seen ? e / row.sum : 0;
    const unsigned mask = __ballot_sync(~0u, seen);
    if (gathers && seen) o.AddKey(p, at, key, z, x, e, probability);
    if (has_histogram) o.AddTile(at, begin, probability, mask);
    AddTile(shared, probability, mask, columns.first, columns.total, sums,
            [&](int column) { StageValues(shared, p, at, v, begin, column); });
  });
  StoreOutput(p, at, row, columns, sums);
  if (chunk == 0 && at.inside && Lane() == 0) StoreRow(f.lse, at, row.lse);
  if (!observes) return;
  o.Combine();
  if (gathers) StoreObserved(p, at, row, o);
  if (p.partials != nullptr) {
    SumBlock(p, shared, at, block, row, o, columns, sums);
  }
}

// Items: chunks of columns, then blocks of queries, active heads, sequences.
__global__ __launch_bounds__(kThreads) void ForwardKernel(
    const __grid_constant__ ObserveParams p, bool observes, int chunks,
    int64_t items) {
  __shared__ Shared shared;
  const int blocks = p.forward.order.blocks;
  for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    const int chunk = static_cast<int>(item % chunks);
    const int block = static_cast<int>(item / chunks % blocks);
    ForwardBlock(p, observes, shared, chunk, block, item / chunks / blocks);
  }
}

}  // namespace
}  // namespace plain

void LaunchPlainForward(const ObserveParams& params, bool observes,
                        cudaStream_t stream) {
  const ForwardParams& f = params.forward;
  const int chunks =
      CeilDiv(f.value_dim + params.feature_count, plain::kColumns);
  const int64_t items = static_cast<int64_t>(chunks) * f.order.blocks *
                        f.order.heads * f.order.sequences;
  if (items == 0) return;
  plain::ForwardKernel<<<plain::GridFor(items), plain::kThreads, 0, stream>>>(
      params, observes, chunks, items);
  CheckCuda(cudaGetLastError(), "attention cuda.plain forward");
}

}  // namespace headwise::attention_cuda
