// The full statistics of the Hopper forward kernel: the distance histogram of
// a block's rows, kept in shared memory in units of 2^reference, and the end of
// a work item. Lane 0 of a row's four adds to its buckets; the four clear and
// scale them together.
#pragma once

#include "headwise/ops/attention/cuda/device/observed.cuh"
#include "headwise/ops/attention/cuda/sm90/layout.cuh"

namespace headwise::attention_cuda::sm90 {

// A bucket of a row of the block.
template <class C>
__device__ inline float& BucketAt(Shared<C>& shared, int row, int bucket) {
  return shared.observed.histogram[row][bucket];
}

// The four lanes of a row share its buckets: lane l takes those at 4i + l, as
// many i in every lane, or the compiler would no longer know the warp for whole
// and keep addresses in uniform registers.
inline constexpr int kShares = (kBuckets + 3) / 4;

template <class C>
__device__ inline void ClearBuckets(Shared<C>& shared, int group) {
  const int row = 64 * group + RowInGroup();
#pragma unroll
  for (int i = 0; i < 2 * kShares; ++i) {
    const int bucket = i / 2 * 4 + threadIdx.x % 4;
    if (bucket < kBuckets) BucketAt<C>(shared, row + 8 * (i % 2), bucket) = 0;
  }
  __syncwarp();
}

// The rows' references have moved.
template <class C>
__device__ inline void ScaleBuckets(Shared<C>& shared, int group,
                                    const float (&alphas)[2]) {
  const int row = 64 * group + RowInGroup();
  __syncwarp();
#pragma unroll 1
  for (int i = 0; i < 2 * kShares; ++i) {
    const int bucket = i / 2 * 4 + threadIdx.x % 4;
    if (bucket >= kBuckets) continue;
    BucketAt<C>(shared, row + 8 * (i % 2), bucket) *=
        i % 2 == 0 ? alphas[0] : alphas[1];
  }
  __syncwarp();
}

// Tiles that begin at keys from … upto lie in one bucket for all rows of the
// warpgroup: their products count their sums, kept here until another bucket's
// turn comes.
struct WholeTiles {
  int from = 1, upto = 0, bucket = 0;
  float sum[2] = {0, 0};  // lane 0 of a row's four
};

template <class C>
__device__ inline void PutWhole(Shared<C>& shared, int group,
                                WholeTiles& whole) {
  const int row = 64 * group + RowInGroup();
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    if (threadIdx.x % 4 == 0) {
      BucketAt<C>(shared, row + 8 * r, whole.bucket) += whole.sum[r];
    }
    whole.sum[r] = 0;
  }
}

// Adds the exponentials of the tile that begins at `begin`, unless it is one of
// `whole`, which is renewed where it lies in another bucket: then returns true,
// and what its products count is to be added there. first: position of the
// warpgroup's first row.
template <class C>
__device__ inline bool BucketTile(const ObserveParams& p, Shared<C>& shared,
                                  int group, int first, int begin,
                                  WholeTiles& whole,
                                  const float (&e)[C::kN / 2]) {
  if (begin >= whole.from && begin <= whole.upto) return true;
  if (p.histogram.data == nullptr && p.partials == nullptr) return false;
  const int nearest = Max(first - begin - (C::kN - 1), -p.forward.band.after);
  const int low = BucketOf(nearest), high = BucketOf(first - begin + 63);
  if (low >= high) {
    const DistanceRange range = DistancesIn(high);
    PutWhole<C>(shared, group, whole);
    whole.bucket = high;
    whole.from = first + 63 - range.last;
    whole.upto = first - (C::kN - 1) - range.first;
    return true;
  }
  const int row = 64 * group + RowInGroup();
  const int warp = Uniform(threadIdx.x % 128 / 32);
  SpreadTile(e, first - begin + 16 * warp, high, low,
             [&](int r, int bucket) -> float& {
               return BucketAt<C>(shared, row + 8 * r, bucket);
             });
  return false;
}

// Writes the weighted sums of the warpgroup's histograms, which are whole.
template <class C>
__device__ inline void SumHistograms(const ObserveParams& p, Shared<C>& shared,
                                     const Task& t, int group) {
  NamedSync(8 + group, 128);
  const int block = t.first_query / kObserveRows + group;
  const int c = threadIdx.x % 128;
  if (block < p.blocks && c < kBuckets) {
    double sum = 0;
    for (int row = 64 * group; row < 64 * group + 64; ++row) {
      const float w = shared.observed.weight[row];
      if (w != 0) sum += static_cast<double>(w) * BucketAt<C>(shared, row, c);
    }
    const int64_t unit =
        static_cast<int64_t>(t.sequence) * p.forward.order.heads + t.head_index;
    p.partials[(unit * p.blocks + block) * p.width + c] = sum;
  }
  NamedSync(8 + group, 128);
}

// The histogram of the thread's row r, in units of 2^reference until now.
template <class C>
__device__ inline void FinishHistogram(const ObserveParams& p,
                                       Shared<C>& shared, int group, int r,
                                       const RowPlace& at, float inverse) {
  const bool puts = p.histogram.data != nullptr && at.inside;
  const int lane = threadIdx.x % 4;
  float* to = p.histogram.At(at.sequence, at.head, at.row) + lane;
#pragma unroll
  for (int i = 0; i < kShares; ++i) {
    if (4 * i + lane >= kBuckets) continue;
    float& bucket =
        BucketAt<C>(shared, 64 * group + RowInGroup() + 8 * r, 4 * i + lane);
    const float mass = inverse == 0 ? 0 : bucket * inverse;
    if (puts) to[4 * i] = mass;
    if (p.partials != nullptr) bucket = mass;
  }
}

// Writes what a warpgroup has found for its rows beyond the core. at: the
// thread's row 0.
template <class C>
__device__ inline void FinishObserved(const ObserveParams& p, Shared<C>& shared,
                                      const Task& t, int group,
                                      const RowPlace& at, int rows_len,
                                      const Rows<true>& rows) {
  static_assert(kObserveRows == 64);
  __syncwarp();
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const RowPlace here = at.Row(r, t.extent.query_len, rows_len);
    const RowPartial row = GatherRow(rows, r);
    const float square_log = QuadSum(rows.square_log[r]);
    const float squares = QuadSum(rows.squares[r]);
    const RowEnd end = EndOf(p.forward, row, here.head);
    const float lse = row.sum != 0 ? row.reference + end.log : -INFINITY;
    const Shown shown(here, lse);
    const float inverse = shown(end.inverse);
    FinishHistogram<C>(p, shared, group, r, here, inverse);
    if (threadIdx.x % 4 != 0) continue;
    shared.observed.weight[64 * group + RowInGroup() + 8 * r] =
        WeightOf(p, here, shown);
    if (!here.inside) continue;
    const float best = row.best * inverse;
    // About the reference: a variance is the same about any, unless some is
    // missing.
    float log = row.entropy * inverse, square = square_log * inverse;
    if (end.missing != 0) {
      square -= end.log * (2 * log - end.log * (1 - end.missing));
      log = -EntropyOf(row, end);
    }
    PutObserved(p, here, shown, log, square, squares * inverse * inverse);
    if (p.kept_is_max) {
      PutKept(p, here, shown, best > 1 ? 1 : best, row.place);
    }
  }
  if (p.partials != nullptr) SumHistograms<C>(p, shared, t, group);
}

}  // namespace headwise::attention_cuda::sm90
