// The full statistics of the Hopper forward kernel: the distance histogram of
// a block's rows, kept in shared memory in units of 2^reference, and the end of
// a work item. Lane 0 of a row's four adds to its buckets; the four clear and
// scale them together.
#pragma once

#include "headwise/ops/attention/cuda/device/observed.cuh"
#include "headwise/ops/attention/cuda/sm90/layout.cuh"

namespace headwise::attention_cuda::sm90 {

// A bucket of a row of the block. With two column blocks there is no room for
// an array of them; but of each 128 bytes of the two tiles of counting columns
// products read 16, those at piece `row % 8`, and the rest takes 28 buckets.
template <class C>
__device__ inline float& BucketAt(Shared<C>& shared, int row, int bucket) {
  if constexpr (C::kBlocks == 1) {
    return shared.observed.histogram[row][bucket];
  } else {
    static_assert(C::kCounting == 2 && C::kM == C::kN && kBuckets <= 2 * 28);
    const int tile = bucket / 28, in_tile = bucket % 28;
    const int place = 32 * row + 4 * (row % 8);
    float* floats = reinterpret_cast<float*>(shared.counting);
    return floats[C::kN * 32 * tile + (place ^ (4 + in_tile))];
  }
}

// f(bucket, r) for all buckets of the thread's rows r, shared among the four
// lanes of a row: as often in every lane, or the compiler would no longer know
// the warp for whole and keep addresses in uniform registers.
template <class C, class F>
__device__ inline void ForBuckets(Shared<C>& shared, int group, F f) {
  const int row = 64 * group + RowInGroup();
#pragma unroll 1
  for (int i = 0; i < 2 * CeilDiv(kBuckets, 4); ++i) {
    const int r = i % 2, c = i / 2 * 4 + threadIdx.x % 4;
    if (c < kBuckets) f(BucketAt<C>(shared, row + 8 * r, c), r);
  }
  __syncwarp();
}

template <class C>
__device__ inline void ClearBuckets(Shared<C>& shared, int group) {
  ForBuckets<C>(shared, group, [](float& bucket, int) { bucket = 0; });
}

// The reference has moved.
template <class C>
__device__ inline void ScaleBuckets(Shared<C>& shared, int group,
                                    const float (&alphas)[2]) {
  __syncwarp();
  ForBuckets<C>(shared, group, [&](float& bucket, int r) {
    bucket *= r == 0 ? alphas[0] : alphas[1];
  });
}

// Adds the exponentials of the tile that begins at `begin`, where its distances
// lie in several buckets. Where they lie in one, for all rows of the warpgroup,
// returns it: the products count its sums (AddWhole). Otherwise −1. first:
// position of the warpgroup's first row.
template <class C>
__device__ inline int BucketTile(const ObserveParams& p, Shared<C>& shared,
                                 int group, int first, int begin,
                                 const float (&e)[C::kN / 2]) {
  const int nearest = first - begin - (C::kN - 1);
  const int low = BucketOf(Max(nearest, -p.forward.band.after));
  const int high = BucketOf(first - begin + 63);
  if (low >= high) return high;
  if (p.histogram.data == nullptr && p.partials == nullptr) return -1;
  const int row = 64 * group + RowInGroup();
  const int ahead = first + RowInGroup() - begin - 2 * (threadIdx.x % 4);
  // Sums of all keys from a bucket's first distance on, less those before.
  float before[2] = {};
#pragma unroll 1
  for (int bucket = high; bucket >= low; --bucket) {
    const int end = ahead - DistancesIn(bucket).first;
    float sum[2][2] = {};
    // Row 1, 8 positions further on, is to its next 8 keys as row 0 to these.
#pragma unroll
    for (int k = -1; k < C::kN / 8; ++k) {
#pragma unroll
      for (int b = 0; b < 2; ++b) {
        if (8 * k + b > end) continue;
        if (k >= 0) sum[0][b] += e[Max(0, 4 * k + b)];
        if (k < C::kN / 8 - 1)
          sum[1][b] += e[Min(4 * k + 6 + b, C::kN / 2 - 1)];
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float all = QuadSum(sum[r][0] + sum[r][1]);
      if (threadIdx.x % 4 == 0) {
        BucketAt<C>(shared, row + 8 * r, bucket) += all - before[r];
      }
      before[r] = all;
    }
  }
  return -1;
}

// Adds the sums of a tile that lies in one bucket, as its products counted
// them.
template <class C>
__device__ inline void AddWhole(Shared<C>& shared, int group, int bucket,
                                const float (&counted)[4]) {
  if (bucket < 0 || threadIdx.x % 4 != 0) return;
  const int row = 64 * group + RowInGroup();
  BucketAt<C>(shared, row, bucket) += counted[0];
  BucketAt<C>(shared, row + 8, bucket) += counted[2];
}

// Writes the rows' histograms, which are whole, and their weighted sums.
template <class C>
__device__ inline void StoreHistogram(const ObserveParams& p, Shared<C>& shared,
                                      const Task& t, int group,
                                      const RowPlace& at, int rows_len) {
  const int first = t.first_query + 64 * group;
  if (p.histogram.data != nullptr) {
    const int warp = threadIdx.x % 128 / 32 * 16;
    const int left = Min(16, rows_len - first - warp);
    for (int i = threadIdx.x % 32; i < left * kBuckets; i += 32) {
      const int row = warp + i / kBuckets, c = i % kBuckets;
      p.histogram.At(at.sequence, t.head,
                     t.extent.query_start + first + row)[c] =
          BucketAt<C>(shared, 64 * group + row, c);
    }
  }
  if (p.partials == nullptr) return;
  NamedSync(8 + group, 128);
  const int block = first / kObserveRows, c = threadIdx.x % 128;
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

// Writes what a warpgroup has found for its rows beyond the core. at: the
// thread's row 0.
template <class C>
__device__ inline void FinishObserved(const ObserveParams& p, Shared<C>& shared,
                                      const Task& t, int group, RowPlace at,
                                      int rows_len, const Rows<true>& rows) {
  static_assert(kObserveRows == 64);
  float inverse[2];
  __syncwarp();
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    RowPlace here = at;
    here.query += 8 * r;
    here.row += 8 * r;
    here.inside = here.query < rows_len;
    here.counts = here.query < t.extent.query_len;
    const RowPartial row = GatherRow(rows, r);
    const float square_log = QuadSum(rows.square_log[r]);
    const float squares = QuadSum(rows.squares[r]);
    const float lse =
        row.sum != 0 ? row.reference + __log2f(row.sum) : -INFINITY;
    const Shown shown(here, lse);
    inverse[r] = shown(1 / row.sum);
    if (threadIdx.x % 4 != 0) continue;
    shared.observed.weight[64 * group + RowInGroup() + 8 * r] =
        WeightOf(p, here, shown);
    if (!here.inside) continue;
    const float best = row.best * inverse[r];
    PutObserved(p, here, shown, row.entropy * inverse[r],
                square_log * inverse[r], squares * inverse[r] * inverse[r],
                best > 1 ? 1 : best, row.place);
  }
  ForBuckets<C>(shared, group, [&](float& bucket, int r) {
    const float scale = r == 0 ? inverse[0] : inverse[1];
    bucket = scale == 0 ? 0 : bucket * scale;
  });
  StoreHistogram<C>(p, shared, t, group, at, rows_len);
}

}  // namespace headwise::attention_cuda::sm90
