// What keys say beside their scores: features, labels, whether they are
// excluded. A tile of 64 keys in shared memory, and a thread's sums over its
// two rows of probabilities, held as softmax.cuh describes. Features are value
// columns: a product with P.
#pragma once

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

// A tile's features and labels, in the background. A key that no row sees may
// have any label: its probabilities are 0.
__device__ inline void LoadSides(const ObserveParams& p, const Extent& extent,
                                 int batch, int begin, SideTile& side) {
  static_assert(sm80::kThreads == 2 * sm80::kRows && kFeatures == 8);
  const int part = threadIdx.x / sm80::kRows, key = threadIdx.x % sm80::kRows;
  const bool valid = begin + key < extent.key_len;
  const int64_t at = extent.key_start + begin + (valid ? key : 0);
  if (p.feature_count > 0) {
    const int64_t keys = static_cast<int64_t>(p.key_batches) * p.key_rows;
    const int64_t row = (2 * blockIdx.y + part) * keys +
                        static_cast<int64_t>(batch) * p.key_rows + at;
    CopyAsync(
        SharedAddress(&side.features[part][key][0]),
        static_cast<const __nv_bfloat16*>(p.split_features) + row * kFeatures,
        valid);
  }
  for (int l = part; l < p.label_count; l += 2) {
    CopyWordAsync(SharedAddress(&side.labels[l][key]),
                  p.key_labels.At(l, batch, at), valid);
  }
}

// Whether a key of a tile is excluded, on its way there; a thread a key.
struct KeySide {
  bool excluded = false;

  __device__ void Read(const ObserveParams& p, const Extent& extent, int batch,
                       int begin) {
    if (p.excluded.data == nullptr || threadIdx.x >= sm80::kRows) return;
    const int key = begin + threadIdx.x;
    excluded = key < extent.key_len &&
               *p.excluded.At(batch, extent.key_start + key, 0) != 0;
  }
  __device__ void Put(SideTile& side) const {
    if (threadIdx.x >= sm80::kRows) return;
    const uint32_t bits = __ballot_sync(~0u, excluded);
    if (threadIdx.x % 32 == 0) side.excluded[threadIdx.x / 32] = bits;
  }
};

// A thread's part of its two rows.
struct SideSums {
  float kept[2] = {kLeast, kLeast};
  int kept_place[2] = {-1, -1};
  float labels[kMostLabels][2] = {};
  float features[4] = {};                  // 16 × 8 of the warp
  static constexpr float kLeast = 1e-37f;  // no probability is taken below it
};

// e: of 32 keys, the first of them `first` of the tile.
__device__ inline void AddFeatures(const float (&e)[16], const SideTile& side,
                                   int first, SideSums& sums) {
  uint32_t a[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    a[i] = Pack<__nv_bfloat16>(e[2 * i], e[2 * i + 1]);
  }
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    uint32_t y[4];
    LoadBlocksTransposed(
        y, SharedAddress(&side.features[part][first + threadIdx.x % 32][0]));
    SmallProduct<__nv_bfloat16>(sums.features, a[0], a[1], a[2], a[3], y[0],
                                y[1]);
    SmallProduct<__nv_bfloat16>(sums.features, a[4], a[5], a[6], a[7], y[2],
                                y[3]);
  }
}

// column: the thread's first key. Keys come from right to left, so that of
// equals the first is kept. Seldom a row finds a larger one than before.
__device__ inline void AddKept(const float (&e)[16], const SideTile& side,
                               int first, int column, SideSums& sums) {
  float most[2] = {};
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    most[(i / 2) % 2] = fmaxf(most[(i / 2) % 2], e[i]);
  }
  const bool found = most[0] >= sums.kept[0] || most[1] >= sums.kept[1];
  if (!__any_sync(~0u, found)) return;
  const uint32_t excluded =
      side.excluded[first / 32] >> (2 * (threadIdx.x % 4));
#pragma unroll
  for (int i = 15; i >= 0; --i) {
    const int k = i / 4, r = (i / 2) % 2, b = i % 2;
    const bool take =
        e[i] >= sums.kept[r] && (excluded >> (8 * k + b) & 1) == 0;
    sums.kept[r] = take ? e[i] : sums.kept[r];
    sums.kept_place[r] = take ? column + 8 * k + b : sums.kept_place[r];
  }
}

// Labels of a block's queries; −1: none.
using RowLabels = int[kMostLabels][sm80::kRows];

__device__ inline void LoadRowLabels(const ObserveParams& p, const Task& t,
                                     int batch, RowLabels& labels) {
  for (int i = threadIdx.x; i < p.label_count * sm80::kRows;
       i += sm80::kThreads) {
    const int l = i / sm80::kRows, row = i % sm80::kRows;
    const int query = t.first_query + row;
    labels[l][row] =
        query < t.extent.query_len
            ? *p.query_labels.At(l, batch, t.extent.query_start + query)
            : -1;
  }
}

// row: the thread's first of the block. For a row without a label in vain: see
// FinishSides.
__device__ inline void AddLabels(const float (&e)[16], const SideTile& side,
                                 int first, const RowLabels& labels, int row,
                                 int count, SideSums& sums) {
#pragma unroll
  for (int l = 0; l < kMostLabels; ++l) {
    if (l >= count) break;
    const int own[2] = {labels[l][row], labels[l][row + 8]};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int2 keys = *reinterpret_cast<const int2*>(
          &side.labels[l][first + 8 * k + 2 * (threadIdx.x % 4)]);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        if (own[r] == keys.x) sums.labels[l][r] += e[4 * k + 2 * r];
        if (own[r] == keys.y) sums.labels[l][r] += e[4 * k + 2 * r + 1];
      }
    }
  }
}

// Probabilities of 32 keys of a tile; features: those of this block's part.
__device__ inline void AddSides(const ObserveParams& p, const float (&e)[16],
                                const SideTile& side, int first, int column,
                                const RowLabels& labels, int row,
                                SideSums& sums) {
  if (p.feature_count > 0) AddFeatures(e, side, first, sums);
  if (blockIdx.y > 0) return;
  if (p.excluded.data != nullptr) AddKept(e, side, first, column, sums);
  if (p.label_count > 0) {
    AddLabels(e, side, first, labels, row, p.label_count, sums);
  }
}

// The rows' numbers that have several columns, after the walk.
struct SideColumns {
  float weight[sm80::kRows];
  float mass[sm80::kRows][kFeatures + kMostLabels];
};

// The key that a row keeps, over the four lanes that share it.
struct Kept {
  float share;
  int place;

  __device__ Kept(const SideSums& sums, int r)
      : share(sums.kept[r]), place(sums.kept_place[r]) {
#pragma unroll
    for (int lane = 1; lane < 4; lane *= 2) {
      const float other = __shfl_xor_sync(~0u, share, lane);
      const int key = __shfl_xor_sync(~0u, place, lane);
      const bool take = other > share || (other == share && key >= 0 &&
                                          (place < 0 || key < place));
      share = take ? other : share;
      place = take ? key : place;
    }
    if (place < 0) share = 0;
  }
};

// Row r's columns into shared memory; row: of the block. Returns what it keeps.
__device__ inline Kept FinishSides(const ObserveParams& p, const SideSums& sums,
                                   const RowLabels& labels, int r, int row,
                                   const RowPlace& at, const Shown& shown,
                                   SideColumns& columns) {
  const bool lead = threadIdx.x % 4 == 0;
#pragma unroll
  for (int l = 0; l < kMostLabels; ++l) {
    if (l >= p.label_count) break;
    const float mass = QuadSum(sums.labels[l][r]);
    if (!lead) continue;
    columns.mass[row][kFeatures + l] = shown(labels[l][row] != -1 ? mass : 0);
  }
#pragma unroll
  for (int b = 0; b < 2; ++b) {
    columns.mass[row][2 * (threadIdx.x % 4) + b] =
        shown(sums.features[2 * r + b]);
  }
  if (lead) columns.weight[row] = WeightOf(p, at, shown);
  return Kept(sums, r);
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

  __device__ ObservedRows(const ForwardParams& f, const Task& t, int batch) {
    in_block = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
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

// Of a block among those that leave weighted sums.
__device__ inline int64_t PartialOf(const ObserveParams& p) {
  const WorkItem item = p.forward.order.At(blockIdx.x);
  return (static_cast<int64_t>(item.sequence) * p.forward.order.heads +
          item.head) *
             p.blocks +
         item.block;
}

}  // namespace headwise::attention_cuda
