// What keys say beside their scores: features, labels, whether they are
// excluded. A tile of 64 keys in shared memory, and a thread's sums over its
// two rows of probabilities, held as softmax.cuh describes. Features are value
// columns: a product with P.
#pragma once

#include <cstddef>

#include "headwise/ops/attention/cuda/device/observed.cuh"
#include "headwise/ops/attention/cuda/device/task.cuh"
#include "headwise/ops/attention/cuda/sm80/tile.cuh"

namespace headwise::attention_cuda {

inline constexpr int kFeatures = kObserveFeatures;

struct SideTile {
  // Values in bf16, and what that leaves of them.
  alignas(16) __nv_bfloat16 features[2][sm80::kRows][kFeatures];
  alignas(16) int labels[kMostLabels][sm80::kRows];
  uint32_t excluded[2];  // a bit a key
};

__device__ inline uint32_t SharedAddress(const void* at) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(at));
}

// Where a thread finds its part of a tile: the features' one half or other of
// a key, every other label of it, and, the first 64 of them, whether it is
// excluded.
struct SideSource {
  static_assert(sm80::kThreads == 2 * sm80::kRows && kFeatures == 8);

  const __nv_bfloat16* features = nullptr;
  const int* labels = nullptr;
  const uint8_t* excluded = nullptr;
  int found = 0;  // of the tile on its way

  __device__ SideSource(const ObserveParams& p, const Extent& extent,
                        int batch) {
    const int part = threadIdx.x / sm80::kRows, key = threadIdx.x % sm80::kRows;
    const int64_t at = extent.key_start + key;
    if (p.feature_count > 0) {
      const int64_t keys = static_cast<int64_t>(p.key_batches) * p.key_rows;
      features = static_cast<const __nv_bfloat16*>(p.split_features) +
                 ((2 * blockIdx.y + part) * keys +
                  static_cast<int64_t>(batch) * p.key_rows + at) *
                     kFeatures;
    }
    if (part < p.label_count) labels = p.key_labels.At(part, batch, at);
    if (p.excluded.data != nullptr && part == 0) {
      excluded = p.excluded.At(batch, at, 0);
    }
  }

  // The tile of keys from `begin` on, in the background. A key that no row sees
  // may have any label: its probabilities are 0.
  __device__ void Load(const ObserveParams& p, const Extent& extent, int begin,
                       SideTile& side) {
    const int part = threadIdx.x / sm80::kRows, key = threadIdx.x % sm80::kRows;
    const bool valid = begin + key < extent.key_len;
    if (p.feature_count > 0) {
      CopyAsync(SharedAddress(&side.features[part][key][0]),
                features + int64_t{begin} * kFeatures, valid);
    }
#pragma unroll
    for (int l = 0; l < kMostLabels; l += 2) {
      if (l + part >= p.label_count) break;
      CopyWordAsync(
          SharedAddress(&side.labels[l + part][key]),
          labels + l * p.key_labels.stride[0] + begin * p.key_labels.stride[2],
          valid);
    }
    if (excluded != nullptr)
      found = valid ? excluded[begin * p.excluded.stride[1]] : 0;
  }

  // What Load has found of excluded keys, before the threads meet.
  __device__ void Put(SideTile& side) const {
    if (threadIdx.x >= sm80::kRows) return;
    const uint32_t bits = __ballot_sync(~0u, found != 0);
    if (threadIdx.x % 32 == 0) side.excluded[threadIdx.x / 32] = bits;
  }
};

// What a thread needs of 16 keys of a tile, the first of them `first`; side:
// where in shared memory the tile's SideTile lies. Nothing here asks what is
// wanted: sums of what was not loaded are not stored, and code without
// branches is faster than less of it.
template <int kLabels>
struct SideKeys {
  uint32_t features[4];
  int2 labels[kLabels][2];

  __device__ SideKeys(uint32_t side, int first) {
    const int lane = threadIdx.x % 32;
    LoadBlocksTransposed(
        features, side + static_cast<uint32_t>(offsetof(SideTile, features)) +
                      (lane / 16 * sm80::kRows + lane % 16 + first) *
                          kFeatures * sizeof(__nv_bfloat16));
    const uint32_t from = side +
                          static_cast<uint32_t>(offsetof(SideTile, labels)) +
                          (2 * (lane % 4) + first) * sizeof(int);
#pragma unroll
    for (int i = 0; i < 2 * kLabels; ++i) {
      labels[i / 2][i % 2] =
          LoadPair(from + (i / 2 * sm80::kRows + i % 2 * 8) * sizeof(int));
    }
  }
};

// A thread's part of 16 rows of its warp. What is kept all four lanes of a row
// know.
template <int kLabels>
struct SideSums {
  static constexpr float kLeast = 1e-37f;  // no probability is taken below it

  float kept[2] = {kLeast, kLeast};
  int kept_place[2] = {-1, -1};
  int own[kLabels][2];  // labels of the rows; −1: none
  float labels[kLabels][2] = {};
  float features[4] = {};  // 16 × 8 of the warp

  // row: the thread's first of the task.
  __device__ void LoadLabels(const ObserveParams& p, const Task& t, int batch,
                             int row) {
#pragma unroll
    for (int l = 0; l < kLabels; ++l) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int query = t.first_query + row + 8 * r;
        own[l][r] =
            l < p.label_count && query < t.extent.query_len
                ? *p.query_labels.At(l, batch, t.extent.query_start + query)
                : -1;
      }
    }
  }

  // The largest probability that row r keeps.
  __device__ float Kept(int r) const { return kept_place[r] < 0 ? 0 : kept[r]; }

  // e: probabilities of 16 keys. Features: those of this block's part. For a
  // row without a label in vain: see FinishSides.
  __device__ void Add(const float (&e)[8], const SideKeys<kLabels>& keys) {
    uint32_t a[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      a[i] = Pack<__nv_bfloat16>(e[2 * i], e[2 * i + 1]);
    }
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      SmallProduct<__nv_bfloat16>(features, a[0], a[1], a[2], a[3],
                                  keys.features[2 * part],
                                  keys.features[2 * part + 1]);
    }
#pragma unroll
    for (int i = 0; i < 4 * kLabels; ++i) {
      const int l = i / 4, k = i / 2 % 2, r = i % 2;
      if (own[l][r] == keys.labels[l][k].x) labels[l][r] += e[4 * k + 2 * r];
      if (own[l][r] == keys.labels[l][k].y) {
        labels[l][r] += e[4 * k + 2 * r + 1];
      }
    }
  }

  // Whether row r has to be told of them.
  __device__ bool Exceeds(const float (&e)[8], int r) const {
    return fmaxf(fmaxf(e[2 * r], e[2 * r + 1]),
                 fmaxf(e[2 * r + 4], e[2 * r + 5])) >= kept[r];
  }

  // Tells the warp's rows r of them, where one has to be: seldom, once they
  // have seen many keys.
  __device__ void Keep(const float (&e)[8], int r, uint32_t excluded,
                       int column) {
    if (!__any_sync(~0u, Exceeds(e, r))) return;
      // Keys come from right to left, so that of equals the first is kept.
#pragma unroll
    for (int i = 3; i >= 0; --i) {
      const int k = 8 * (i / 2) + i % 2;
      const float x = e[4 * (i / 2) + 2 * r + i % 2];
      const bool take = (x >= kept[r]) & ((excluded >> k & 1) == 0);
      kept[r] = take ? x : kept[r];
      kept_place[r] = take ? column + k : kept_place[r];
    }
#pragma unroll
    for (int lane = 1; lane < 4; lane *= 2) {
      const float other = __shfl_xor_sync(~0u, kept[r], lane);
      const int key = __shfl_xor_sync(~0u, kept_place[r], lane);
      // As unsigned none, −1, comes after all.
      const bool take =
          (other > kept[r]) |
          ((other == kept[r]) &
           (static_cast<uint32_t>(key) < static_cast<uint32_t>(kept_place[r])));
      kept[r] = take ? other : kept[r];
      kept_place[r] = take ? key : kept_place[r];
    }
  }
};

// Of a tile, from the thread's first key on; first: of 16 keys.
__device__ inline uint32_t ExcludedFrom(const SideTile& side, int first) {
  return side.excluded[first / 32] >> (first % 32 + 2 * (threadIdx.x % 4));
}

// The rows' numbers that have several columns, after the walk.
struct SideColumns {
  float weight[sm80::kRows];
  float mass[sm80::kRows][kFeatures + kMostLabels];
};

// Row r's columns into shared memory; row: of 64.
template <int kLabels>
__device__ inline void FinishSides(const ObserveParams& p,
                                   const SideSums<kLabels>& sums, int r,
                                   int row, const RowPlace& at,
                                   const Shown& shown, SideColumns& columns) {
  const bool lead = threadIdx.x % 4 == 0;
#pragma unroll
  for (int l = 0; l < kLabels; ++l) {
    if (l >= p.label_count) break;
    const float mass = QuadSum(sums.labels[l][r]);
    if (!lead) continue;
    columns.mass[row][kFeatures + l] = shown(sums.own[l][r] != -1 ? mass : 0);
  }
#pragma unroll
  for (int b = 0; b < 2; ++b) {
    columns.mass[row][2 * (threadIdx.x % 4) + b] =
        shown(sums.features[2 * r + b]);
  }
  if (lead) columns.weight[row] = WeightOf(p, at, shown);
}

// A block's rows of several numbers, and their weighted sums. value(row, c);
// offset: of the first column in a row's results, column: in the sums.
template <class Value>
__device__ inline void StoreColumns(const ObserveParams& p,
                                    const View3<float>& view,
                                    const float* weights, int64_t partial,
                                    const RowPlace& at, int rows_left,
                                    int count, int offset, int column,
                                    const Value& value) {
  for (int i = threadIdx.x; i < count * sm80::kRows; i += sm80::kThreads) {
    const int row = i / count, c = i % count;
    if (view.data != nullptr && row < rows_left) {
      view.At(at.sequence, at.head, at.row + row)[offset + c] = value(row, c);
    }
  }
  if (p.partials == nullptr) return;
  // A warp a column, a lane two rows.
  const int lane = threadIdx.x % 32;
  for (int c = threadIdx.x / 32; c < count; c += sm80::kThreads / 32) {
    double sum = 0;
#pragma unroll
    for (int row = lane; row < sm80::kRows; row += 32) {
      const float w = weights[row];
      if (w != 0) sum += static_cast<double>(w) * value(row, c);
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      sum += __shfl_xor_sync(~0u, sum, step);
    }
    if (lane == 0) p.partials[partial * p.width + column + c] = sum;
  }
}

// Features and labels of a block's rows; at: of its first.
__device__ inline void StoreSides(const ObserveParams& p,
                                  const SideColumns& columns, int64_t partial,
                                  const RowPlace& at, int rows_left) {
  const int first = blockIdx.y * kFeatures;
  const int features = Min(kFeatures, p.feature_count - first);
  if (features > 0) {
    StoreColumns(p, p.feature_mass, columns.weight, partial, at, rows_left,
                 features, first, kBuckets + first,
                 [&](int row, int c) { return columns.mass[row][c]; });
  }
  if (first > 0 || p.label_count == 0) return;
  StoreColumns(
      p, p.label_mass, columns.weight, partial, at, rows_left, p.label_count, 0,
      kBuckets + p.feature_count,
      [&](int row, int c) { return columns.mass[row][kFeatures + c]; });
}

// What a thread knows of its rows, 8 apart.
struct ObservedRows {
  int in_block;  // of row 0
  int position;  // of row 0
  float lse[2];

  // first: of the 16 rows, in the block.
  __device__ void Load(const ForwardParams& f, const Task& t, int batch,
                       int first) {
    in_block = first + threadIdx.x % 32 / 4;
    position = t.first_query + in_block + t.extent.offset;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int query = t.first_query + in_block + 8 * r;
      lse[r] = -INFINITY;
      if (query < t.extent.query_len) {
        lse[r] = static_cast<const float*>(
            f.lse.data)[batch * f.lse.batch + t.head * f.lse.head +
                        t.extent.query_start + query];
      }
    }
  }

  // In base 2, as exponents read it.
  __device__ float Reference(int r) const {
    return isfinite(lse[r]) ? lse[r] / kLn2 : kNothing;
  }
  __device__ RowPlace Place(const ForwardParams& f, const Task& t, int batch,
                            int r) const {
    const int len = f.packed ? t.extent.query_len : f.query_len;
    const int query = t.first_query + in_block + 8 * r;
    return {batch,       t.head,
            query,       t.extent.query_start + query,
            query < len, query < t.extent.query_len};
  }
};

// Where the weighted sums of the 64 queries from t.first_query on are left.
__device__ inline int64_t PartialOf(const ObserveParams& p, const Task& t) {
  return (static_cast<int64_t>(t.sequence) * p.forward.order.heads +
          t.head_index) *
             p.blocks +
         t.first_query / sm80::kRows;
}

}  // namespace headwise::attention_cuda
