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

// Scores become probabilities, given the rows' LSE in base 2.
template <int kCount>
__device__ inline void Probabilities(float (&s)[kCount], const float (&lse)[2],
                                     float scale) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    s[i] = Exp2(fmaf(s[i], scale, -lse[(i / 2) % 2]));
  }
}

// The same, and their sums.
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

// Adds a tile's exponentials or probabilities to the buckets high … low, which
// hold all distances that a row of the warp sees in it. ahead: position of the
// warp's first row minus the tile's first key; at(r, bucket): a bucket of the
// thread's row r.
//
// Going through the keys in order, that is by falling distance, a thread sums
// its columns; a bucket gets what the sums have grown by since the one above it
// ended. Its end lies within the same two steps of 8 keys for all lanes.
template <int kCount, class At>
__device__ inline void SpreadTile(const float (&e)[kCount], int ahead, int high,
                                  int low, const At& at) {
  constexpr int kSteps = kCount / 4;
  const int lane = threadIdx.x % 32;
  const int own = ahead + lane / 4 - 2 * (lane % 4);
  float sum[2] = {}, before[2] = {};
  // Adds keys 8k … 8k + 7 of row 0, and of row 1, which stands 8 positions
  // further on, the next 8: those up to `end`.
  const auto add = [&](int k, int end, float(&to)[2]) {
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      if (8 * k + b > end) continue;
      if (k >= 0 && k < kSteps) to[0] += e[4 * k + b];
      if (k + 1 < kSteps) to[1] += e[4 * k + 6 + b];
    }
  };
  const auto put = [&](int bucket, const float(&all)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float grown = QuadSum(all[r] - before[r]);
      before[r] = all[r];
      if (lane % 4 == 0) at(r, bucket) += grown;
    }
  };
  int bucket = high, first = 0, last = 0;
  // The step from which on lanes leave the bucket; all stay in the lowest.
  const auto aim = [&] {
    first = DistancesIn(bucket).first;
    last = bucket == low ? kSteps : (ahead + 1 - first) >> 3;
  };
  aim();
#pragma unroll
  for (int k = -1; k < kSteps; ++k) {
#pragma unroll 1
    while (last <= k) {
      float all[2] = {sum[0], sum[1]};
      add(k, own - first, all);
      add(k + 1, own - first, all);
      put(bucket, all);
      --bucket;
      aim();
    }
    add(k, 8 * k + 1, sum);
  }
  put(bucket, sum);
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
                                   float square_log, float squares) {
  const float variance = kLn2 * kLn2 * (square_log - log * log);
  Put(p.varentropy, at, shown(variance < 0 ? 0 : variance));
  Put(p.sum_squares, at, shown(squares));
}

// The largest probability among keys that are not excluded, and its key.
__device__ inline void PutKept(const ObserveParams& p, const RowPlace& at,
                               const Shown& shown, float kept, int place) {
  Put(p.kept_max, at, shown(kept));
  if (p.kept_argmax.data != nullptr) {
    static_cast<int*>(
        p.kept_argmax.data)[at.sequence * p.kept_argmax.batch +
                            at.head * p.kept_argmax.head + at.row] =
        shown.empty ? -1 : place;
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
