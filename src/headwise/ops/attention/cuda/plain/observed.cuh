// What the plain forward kernel gathers of a row beside its output: sums over
// the lane's own keys in double, then over the warp.
#pragma once

#include "headwise/ops/attention/cuda/device/sink.cuh"
#include "headwise/ops/attention/cuda/plain/tile.cuh"

namespace headwise::attention_cuda::plain {

// The largest score and its key, of equals the first; −1: none.
struct Largest {
  float z = 0;
  int key = -1;

  __device__ void Add(float other, int other_key) {
    const bool take = other_key >= 0 &&
                      (key < 0 || other > z || (other == z && other_key < key));
    z = take ? other : z;
    key = take ? other_key : key;
  }
  __device__ void Combine() {
    for (int lane = 16; lane > 0; lane /= 2) {
      const float other = __shfl_xor_sync(~0u, z, lane);
      const int other_key = __shfl_xor_sync(~0u, key, lane);
      Add(other, other_key);
    }
  }
};

// Bucket of position − key.
__device__ inline int BucketOf(int distance) {
  const int size = Min(32 - __clz(abs(distance)), kMiddleBucket);
  return kMiddleBucket + (distance < 0 ? -size : size);
}

struct Observed {
  // Σe, Σe·x, Σe·x², Σe² and Σe·|p − j| with e = exp x, x = z − reference.
  double sum = 0, first = 0, second = 0, squares = 0, distance = 0;
  Largest best, kept;
  double label[kMostLabels] = {};
  double bucket[2] = {};  // of the row: buckets lane and lane + 32

  // One key that the row sees, with its score, e and probability.
  __device__ void AddKey(const ObserveParams& p, const QueryPlace& at, int key,
                         float z, float x, float e, float probability) {
    if (e != 0) {  // 0 · (−∞) is 0 here
      const double w = e;
      sum += w;
      first += w * x;
      second += w * x * x;
      squares += w * w;
      distance += w * abs(at.position - key);
    }
    best.Add(z, key);
    const int64_t row = static_cast<int64_t>(at.extent.key_start) + key;
    const bool is_kept =
        p.excluded.data == nullptr || *p.excluded.At(at.batch, row, 0) == 0;
    if (is_kept) kept.Add(z, key);
#pragma unroll
    for (int l = 0; l < kMostLabels; ++l) {
      if (l < p.label_count) {
        const int mine = *p.query_labels.At(l, at.batch, at.row);
        const bool match =
            mine != -1 && mine == *p.key_labels.At(l, at.batch, row);
        if (match) label[l] += probability;
      }
    }
  }

  // The histogram of a tile from `begin`, by the whole warp.
  __device__ void AddTile(const QueryPlace& at, int begin, float probability,
                          unsigned mask) {
    for (int j = 0; j < kTile; ++j) {
      const float w = __shfl_sync(~0u, probability, j);
      if ((mask >> j) & 1) {
        const int to = BucketOf(at.position - (begin + j));
        if (to == Lane()) bucket[0] += w;
        if (to == Lane() + 32) bucket[1] += w;
      }
    }
  }

  __device__ void Combine() {
    sum = SumOfWarp(sum);
    first = SumOfWarp(first);
    second = SumOfWarp(second);
    squares = SumOfWarp(squares);
    distance = SumOfWarp(distance);
    best.Combine();
    kept.Combine();
#pragma unroll
    for (int l = 0; l < kMostLabels; ++l) label[l] = SumOfWarp(label[l]);
  }
};

// A row's softmax, and what becomes of its statistics.
struct RowState {
  float reference = -INFINITY;  // the largest score, the sink's among them
  float sum = 0;                // in units of exp(reference)
  float lse = -INFINITY;
  bool reads = false;   // it counts and sees a key that does not score −∞
  bool finite = false;  // and none scores NaN or +∞

  // Of the sum, what a sink with this logit has.
  __device__ float Sink(float logit) const {
    return reads ? expf(logit - reference) : 0;
  }
  // A statistic as it is stored.
  __device__ float Stored(double value) const {
    return finite ? static_cast<float>(value) : reads ? NAN : 0;
  }
  // A column of the statistics as it is summed.
  __device__ float Summed(float weight, double value) const {
    return finite ? static_cast<float>(weight * value) : 0;
  }
};

__device__ inline void StoreRow(const RowResult& result, const QueryPlace& at,
                                float value) {
  if (result.data != nullptr) {
    static_cast<float*>(result.data)[at.At(result)] = value;
  }
}
__device__ inline void StoreKey(const RowResult& result, const QueryPlace& at,
                                int key) {
  if (result.data != nullptr) {
    static_cast<int32_t*>(result.data)[at.At(result)] = key;
  }
}

// Σ A·ln² A − H²: about the reference, Σ A·x being `mean`, where all of the row
// is its keys'; missing: what is not.
__device__ inline double VarianceOf(double second, double mean, double log_sum,
                                    double entropy, double missing) {
  if (missing == 0) return second - mean * mean;
  return second - log_sum * (2 * mean - log_sum * (1 - missing)) -
         entropy * entropy;
}

// Writes what was gathered of a row of the views. By the whole warp.
__device__ inline void StoreObserved(const ObserveParams& p,
                                     const QueryPlace& at, const RowState& row,
                                     const Observed& o) {
  const ForwardParams& f = p.forward;
  if (!at.inside) return;
  if (p.histogram.data != nullptr) {
    float* to = p.histogram.At(at.batch, at.head, at.row);
    to[Lane()] = row.Stored(o.bucket[0]);
    if (Lane() + 32 < kBuckets) to[Lane() + 32] = row.Stored(o.bucket[1]);
  }
  if (Lane() != 0) return;
  const double sink =
      f.sink_logits != nullptr ? row.Sink(f.sink_logits[at.head]) : 0;
  const double sum = o.sum + sink, missing = sink / sum;
  const double mean = o.first / sum, log_sum = log(sum);
  const double entropy = log_sum * (1 - missing) - mean;
  const double variance =
      VarianceOf(o.second / sum, mean, log_sum, entropy, missing);
  const auto probability = [&](const Largest& of) {
    return of.key < 0 ? 0.0
                      : exp(static_cast<double>(of.z) - row.reference) / sum;
  };
  StoreRow(f.entropy, at, row.Stored(entropy));
  StoreRow(f.max_probability, at, row.Stored(probability(o.best)));
  StoreKey(f.argmax, at, row.reads ? o.best.key : -1);
  StoreRow(f.distance, at, row.Stored(o.distance / sum));
  StoreRow(p.varentropy, at, row.Stored(variance > 0 ? variance : 0));
  StoreRow(p.sum_squares, at, row.Stored(o.squares / (sum * sum)));
  StoreRow(p.kept_max, at, row.Stored(probability(o.kept)));
  StoreKey(p.kept_argmax, at, row.reads ? o.kept.key : -1);
  if (p.label_mass.data != nullptr) {
    float* to = p.label_mass.At(at.batch, at.head, at.row);
#pragma unroll
    for (int l = 0; l < kMostLabels; ++l) {
      if (l < p.label_count) to[l] = row.Stored(o.label[l]);
    }
  }
}

// Σ over the block's rows of a value for column lane and one for lane + 32;
// thread c < kChunk gets column c's. By the whole block.
__device__ inline double SumOverRows(Shared& shared, float a, float b) {
  __syncthreads();
  shared.rows[Warp()][Lane()] = a;
  shared.rows[Warp()][Lane() + 32] = b;
  __syncthreads();
  double sum = 0;
  if (threadIdx.x < kChunk) {
    for (int r = 0; r < kRows; ++r) sum += shared.rows[r][threadIdx.x];
  }
  return sum;
}

}  // namespace headwise::attention_cuda::plain
