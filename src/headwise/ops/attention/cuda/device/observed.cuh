// What the observing kernels share: buckets of distance, and a thread's sums
// over its two rows of probabilities held as softmax.cuh describes.
#pragma once

#include "headwise/ops/attention/cuda/device/epilogue.cuh"
#include "headwise/ops/attention/cuda/params.h"

namespace headwise::attention_cuda {

__device__ inline int BucketOf(int ahead) {
  const int size = Min(32 - __clz(abs(ahead)), kMiddleBucket);
  return kMiddleBucket + (ahead < 0 ? -size : size);
}

// The LSE, in base 2, of a row that adds nothing: probabilities vanish, and
// finite numbers stay finite.
inline constexpr float kNothing = 1e30f;

struct LogSums {
  float log[2] = {};         // Σ p·log2 p
  float square_log[2] = {};  // Σ p·(log2 p)²
  float squares[2] = {};     // Σ p²
};

// Scores become probabilities, given the rows' LSE in base 2, and are summed.
template <int kCount>
__device__ inline void AddProbabilities(float (&s)[kCount],
                                        const float (&lse)[2], float scale,
                                        LogSums& sums) {
  LogSums tile;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const int r = (i / 2) % 2;
    const float x = fmaf(s[i], scale, -lse[r]);
    s[i] = Exp2(x);
    const float product = s[i] * x;
    tile.log[r] += product;
    tile.square_log[r] = fmaf(product, x, tile.square_log[r]);
    tile.squares[r] = fmaf(s[i], s[i], tile.squares[r]);
  }
  // A score of −∞ makes NaN of 0 · (−∞), where it should add nothing.
  const bool sound = tile.square_log[0] == tile.square_log[0] &&
                     tile.square_log[1] == tile.square_log[1];
  if (!__all_sync(~0u, sound)) {
    tile.log[0] = tile.log[1] = tile.square_log[0] = tile.square_log[1] = 0;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int r = (i / 2) % 2;
      const float x = s[i] == 0 ? 0 : __log2f(s[i]);
      tile.log[r] += s[i] * x;
      tile.square_log[r] += s[i] * x * x;
    }
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    sums.log[r] += tile.log[r];
    sums.square_log[r] += tile.square_log[r];
    sums.squares[r] += tile.squares[r];
  }
}

// Adds row r's probabilities of a tile to its buckets. ahead: the row's
// position minus the tile's first key. Far from the diagonal a tile lies in one
// bucket; elsewhere the rows of a warp go through the buckets together, since
// the sums of four lanes need them all.
template <int kCount>
__device__ inline void AddBuckets(const float (&e)[kCount], int r, int ahead,
                                  float* buckets) {
  constexpr int kKeys = 2 * kCount;
  const int high = BucketOf(ahead), low = BucketOf(ahead - (kKeys - 1));
  if (__all_sync(~0u, low == high)) {
    float sum[2] = {};
#pragma unroll
    for (int k = 0; k < kCount / 4; ++k) {
      sum[0] += e[4 * k + 2 * r];
      sum[1] += e[4 * k + 2 * r + 1];
    }
    const float all = QuadSum(sum[0] + sum[1]);
    if (threadIdx.x % 4 == 0) buckets[low] += all;
    return;
  }
  const int from = __reduce_min_sync(~0u, low);
  const int upto = __reduce_max_sync(~0u, high);
  for (int bucket = from; bucket <= upto; ++bucket) {
    // Keys begin … end of the thread's columns; two comparisons a score.
    const DistanceRange range = DistancesIn(bucket);
    const int begin = ahead - range.last - 2 * (threadIdx.x % 4);
    const int end = ahead - range.first - 2 * (threadIdx.x % 4);
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) {
      const int k = i / 2, b = i % 2, j = 8 * k + b;
      sum += j >= begin && j <= end ? e[4 * k + 2 * r + b] : 0;
    }
    sum = QuadSum(sum);
    if (threadIdx.x % 4 == 0) buckets[bucket] += sum;
  }
}

// What a row shows: 0 where it sees nothing, NaN where its LSE is not finite.
struct Shown {
  bool empty, finite;
  __device__ Shown(const RowPlace& at, float lse)
      : empty(!at.counts || lse == -INFINITY), finite(isfinite(lse)) {}
  __device__ float operator()(float value) const {
    return empty ? 0 : finite ? value : NAN;
  }
};

// Row results of one number each, from whole sums; by one lane.
__device__ inline void PutObserved(const ObserveParams& p, const RowPlace& at,
                                   const Shown& shown, float log,
                                   float square_log, float squares, float kept,
                                   int kept_place) {
  const float variance = kLn2 * kLn2 * (square_log - log * log);
  Put(p.varentropy, at, shown(variance < 0 ? 0 : variance));
  Put(p.sum_squares, at, shown(squares));
  Put(p.kept_max, at, shown(kept));
  if (p.kept_argmax.data != nullptr) {
    static_cast<int*>(
        p.kept_argmax.data)[at.sequence * p.kept_argmax.batch +
                            at.head * p.kept_argmax.head + at.row] =
        shown.empty ? -1 : kept_place;
  }
}

// Where no key is excluded, what is kept is what the forward pass found.
__device__ inline float KeptMaximum(const ForwardParams& f, const RowPlace& at,
                                    int& place) {
  const int64_t row = at.sequence * f.max_probability.batch +
                      at.head * f.max_probability.head + at.row;
  place =
      static_cast<const int*>(f.argmax.data)[at.sequence * f.argmax.batch +
                                             at.head * f.argmax.head + at.row];
  return static_cast<const float*>(f.max_probability.data)[row];
}

__device__ inline float WeightOf(const ObserveParams& p, const RowPlace& at,
                                 const Shown& shown) {
  if (!at.inside || shown.empty || !shown.finite) return 0;
  return p.weights.data != nullptr ? *p.weights.At(at.sequence, at.row, 0) : 1;
}

}  // namespace headwise::attention_cuda
