// Statistics beyond the core: varentropy, Σp², histogram, and what keys say
// beside their scores: features, labels, excluded ones' kept maximum. A pass
// over (q, k, LSE) after the forward: with the LSE known a probability is one
// exponential and every statistic a plain sum. A block takes 64 queries of one
// head, 16 a warp, and walks their keys 64 at a time. Features are value
// columns: a product with P. Door: launch.h.
#include "headwise/ops/attention/cuda/device/mask.cuh"
#include "headwise/ops/attention/cuda/device/observed.cuh"
#include "headwise/ops/attention/cuda/device/score.cuh"
#include "headwise/ops/attention/cuda/device/task.cuh"
#include "headwise/ops/attention/cuda/launch.h"
#include "headwise/ops/attention/cuda/launch_kernel.cuh"
#include "headwise/ops/attention/cuda/sm80/tile.cuh"

namespace headwise::attention_cuda {
namespace {

using sm80::kRows;
using sm80::kThreads;
static_assert(kRows == kObserveRows);
constexpr int kFeatures = kObserveFeatures;

// What a tile's keys say beside their scores.
struct SideTile {
  // Column c: a feature's value in bf16, 32 + c: what that leaves.
  sm80::Tile<__nv_bfloat16, 2 * kFeatures> features;
  int labels[kMostLabels][kRows];
  bool excluded[kRows];
};
// The rows' numbers that have several columns.
struct RowColumns {
  float histogram[kRows][kBuckets];
  float weight[kRows];
  float mass[kRows][kFeatures + kMostLabels];  // after the walk
};
template <class T, int kDim>
struct ObserveShared {
  sm80::Tile<T, kDim> q, k[2];
  SideTile side[2];
  RowColumns columns;
};

// A thread's part of its two rows.
struct Observed {
  LogSums logs;
  float kept[2] = {kLeast, kLeast};
  int kept_place[2] = {-1, -1};
  float labels[kMostLabels][2] = {};
  float features[kFeatures / 16][8] = {};  // 16 × 16 of the warp each
  static constexpr float kLeast = 1e-37f;  // no probability is taken below it
};

// What a thread knows of its rows.
struct ObservedRows {
  int head, in_block;  // in_block: of row 0
  int position;        // of row 0
  float lse[2];        // in base 2
  int labels[kMostLabels][2];
};

// grid: (⌈B·N·32 / 256⌉, parts).
__global__ void SplitFeaturesKernel(const __grid_constant__ ObserveParams p) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  const int64_t rows = static_cast<int64_t>(p.key_rows) * p.key_batches;
  const int64_t row = i / kFeatures;
  if (row >= rows) return;
  const int c = i % kFeatures, feature = blockIdx.y * kFeatures + c;
  const float x =
      feature < p.feature_count
          ? *p.features.At(row / p.key_rows, row % p.key_rows, feature)
          : 0;
  const __nv_bfloat16 high = __float2bfloat16_rn(x);
  auto* to = static_cast<__nv_bfloat16*>(p.split_features) +
             (blockIdx.y * rows + row) * 2 * kFeatures;
  to[c] = high;
  to[kFeatures + c] = __float2bfloat16_rn(x - __bfloat162float(high));
}

// One key's labels and whether it is excluded, on their way to a tile. A key
// that no row sees may have any: its probabilities are 0.
struct KeySide {
  int labels[kMostLabels];
  bool excluded;

  __device__ void Read(const ObserveParams& p, const Extent& extent, int batch,
                       int begin) {
    const int key = begin + threadIdx.x;
    if (threadIdx.x >= kRows || key >= extent.key_len) return;
    const int64_t at = extent.key_start + key;
#pragma unroll
    for (int l = 0; l < kMostLabels; ++l) {
      if (l < p.label_count) labels[l] = *p.key_labels.At(l, batch, at);
    }
    if (p.excluded.data != nullptr) excluded = *p.excluded.At(batch, at, 0);
  }
  __device__ void Put(const ObserveParams& p, SideTile& side) const {
    if (threadIdx.x >= kRows) return;
#pragma unroll
    for (int l = 0; l < kMostLabels; ++l) {
      if (l < p.label_count) side.labels[l][threadIdx.x] = labels[l];
    }
    side.excluded[threadIdx.x] = excluded;
  }
};

// A tile's features, in the background.
__device__ inline void LoadFeatures(const ObserveParams& p,
                                    const Extent& extent, int batch, int begin,
                                    SideTile& side) {
  if (p.feature_count == 0) return;
  const auto* from =
      static_cast<const __nv_bfloat16*>(p.split_features) +
      ((static_cast<int64_t>(blockIdx.y) * p.key_batches + batch) * p.key_rows +
       extent.key_start + begin) *
          2 * kFeatures;
  sm80::LoadTile(side.features, from, 2 * kFeatures, extent.key_len - begin,
                 2 * kFeatures);
}

// Keys come from right to left, so that of equals the first key is kept.
__device__ inline void AddKept(const float (&e)[32], const SideTile& side,
                               int column, Observed& sums) {
  const int in_tile = 2 * (threadIdx.x % 4);
#pragma unroll
  for (int i = 31; i >= 0; --i) {
    const int k = i / 4, r = (i / 2) % 2, b = i % 2;
    const bool take =
        e[i] >= sums.kept[r] && !side.excluded[in_tile + 8 * k + b];
    sums.kept[r] = take ? e[i] : sums.kept[r];
    sums.kept_place[r] = take ? column + 8 * k + b : sums.kept_place[r];
  }
}

// For a row without a label (−1) in vain: see FinishObserved.
__device__ inline void AddLabels(const float (&e)[32], const SideTile& side,
                                 const ObservedRows& rows, int count,
                                 Observed& sums) {
#pragma unroll
  for (int l = 0; l < kMostLabels; ++l) {
    if (l >= count) break;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int k = i / 4, r = (i / 2) % 2, b = i % 2;
      const int key = 8 * k + 2 * (threadIdx.x % 4) + b;
      if (rows.labels[l][r] == side.labels[l][key]) sums.labels[l][r] += e[i];
    }
  }
}

// Row r's several numbers into shared memory, its single ones to their places.
template <bool kSidesOnly>
__device__ inline void FinishObserved(const ObserveParams& p,
                                      const Observed& sums,
                                      const ObservedRows& rows, int r,
                                      const RowPlace& at, bool first_part,
                                      RowColumns& columns) {
  const int row = rows.in_block + 8 * r;
  const float log = QuadSum(sums.logs.log[r]);
  const float square_log = QuadSum(sums.logs.square_log[r]);
  const float squares = QuadSum(sums.logs.squares[r]);
  float kept = sums.kept[r];
  int place = sums.kept_place[r];
#pragma unroll
  for (int lane = 1; lane < 4; lane *= 2) {
    const float other = __shfl_xor_sync(~0u, kept, lane);
    const int key = __shfl_xor_sync(~0u, place, lane);
    const bool take = other > kept ||
                      (other == kept && key >= 0 && (place < 0 || key < place));
    kept = take ? other : kept;
    place = take ? key : place;
  }
  const bool lead = threadIdx.x % 4 == 0;
  const Shown shown(at, rows.lse[r]);
#pragma unroll
  for (int l = 0; l < kMostLabels; ++l) {
    const float mass = QuadSum(sums.labels[l][r]);
    const bool labelled = rows.labels[l][r] != -1;
    if (lead) {
      columns.mass[row][kFeatures + l] = shown(labelled ? mass : 0);
    }
  }
#pragma unroll
  for (int k = 0; k < kFeatures / 8; ++k) {
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      const int i = 4 * (k % 2) + 2 * r + b;
      columns.mass[row][8 * k + 2 * (threadIdx.x % 4) + b] =
          shown(sums.features[k / 2][i]);
    }
  }
  if (!lead) return;
  columns.weight[row] = WeightOf(p, at, shown);
  if (place < 0) kept = 0;
  if constexpr (!kSidesOnly) {
    for (int c = 0; c < kBuckets; ++c) {
      columns.histogram[row][c] = shown(columns.histogram[row][c]);
    }
  }
  if (!at.inside || !first_part) return;
  if (!kSidesOnly) PutObserved(p, at, shown, log, square_log, squares);
  if (kSidesOnly && p.kept_is_max) return;  // the forward pass has put it
  if (p.kept_is_max) kept = KeptMaximum(p.forward, at, place);
  PutKept(p, at, shown, kept, place);
}

// The block's rows of several numbers, and their weighted sums.
template <bool kSidesOnly>
__device__ inline void StoreColumns(const ObserveParams& p,
                                    const RowColumns& columns, int64_t partial,
                                    RowPlace at, int rows_left,
                                    int first_feature) {
  const int features = Min(kFeatures, p.feature_count - first_feature);
  const bool first_part = first_feature == 0;
  const auto store = [&](const View3<float>& view, int count, int offset,
                         auto value, int column) {
    for (int i = threadIdx.x; i < count * kRows; i += kThreads) {
      const int row = i / count, c = i % count;
      if (view.data != nullptr && row < rows_left) {
        view.At(at.sequence, at.head, at.row + row)[offset + c] = value(row, c);
      }
    }
    if (p.partials == nullptr) return;
    for (int c = threadIdx.x; c < count; c += kThreads) {
      double sum = 0;
      for (int row = 0; row < kRows; ++row) {
        const float w = columns.weight[row];
        if (w != 0) sum += static_cast<double>(w) * value(row, c);
      }
      p.partials[partial * p.width + column + c] = sum;
    }
  };
  if (features > 0) {
    store(
        p.feature_mass, features, first_feature,
        [&](int row, int c) { return columns.mass[row][c]; },
        kBuckets + first_feature);
  }
  if (!first_part) return;
  if constexpr (!kSidesOnly) {
    store(
        p.histogram, kBuckets, 0,
        [&](int row, int c) { return columns.histogram[row][c]; }, 0);
  }
  if (p.label_count > 0) {
    store(
        p.label_mass, p.label_count, 0,
        [&](int row, int c) { return columns.mass[row][kFeatures + c]; },
        kBuckets + p.feature_count);
  }
}

__device__ inline ObservedRows RowsOfThread(const ObserveParams& p,
                                            const Task& t, int batch) {
  const ForwardParams& f = p.forward;
  ObservedRows rows;
  rows.head = t.head;
  rows.in_block = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
  rows.position = t.first_query + rows.in_block + t.extent.offset;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int query = t.first_query + rows.in_block + 8 * r;
    const int64_t row = t.extent.query_start + query;
    const bool counts = query < t.extent.query_len;
    rows.lse[r] = -INFINITY;
    if (counts) {
      rows.lse[r] = static_cast<const float*>(
          f.lse.data)[batch * f.lse.batch + t.head * f.lse.head + row];
    }
#pragma unroll
    for (int l = 0; l < kMostLabels; ++l) {
      rows.labels[l][r] =
          l < p.label_count && counts ? *p.query_labels.At(l, batch, row) : -1;
    }
  }
  return rows;
}

template <bool kSidesOnly, class T, int kDim>
__device__ inline void ObserveTile(const ObserveParams& p, const Task& t,
                                   ObserveShared<T, kDim>& shared, int stage,
                                   int begin, int first_feature,
                                   const ObservedRows& rows, Observed& sums) {
  const SideTile& side = shared.side[stage];
  const ForwardParams& f = p.forward;
  const int lane = threadIdx.x % 32;
  const int first_row = threadIdx.x / 32 * 16;
  const int column = begin + 2 * (lane % 4);
  float s[32] = {};
  sm80::RowProduct<T, kDim>(s, shared.q, first_row, shared.k[stage],
                            CeilDiv(f.head_dim, 16));
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    if (!f.shape.any()) break;
    ShapeRow(f, t.head, s, r, rows.position + 8 * r - column);
  }
  const int first = t.first_query + first_row + t.extent.offset;
  if (!TileIsFull(f.band, first, first + 15, t.extent.key_len, begin, kRows)) {
    MaskTile(s, f.band, rows.position, column, t.extent.key_len);
  }
  if constexpr (kSidesOnly) {
    Probabilities(s, rows.lse, f.scale_log2);
  } else {
    AddProbabilities(s, rows.lse, f.scale_log2, sums.logs);
  }
  if (first_feature < p.feature_count) {
    uint32_t a[4][4];
    sm80::AsOperand<__nv_bfloat16>(s, a);
#pragma unroll
    for (int c = 0; c < kFeatures; c += 16) {
      if (first_feature + c >= p.feature_count) break;
      for (const int from : {c, kFeatures + c}) {
        sm80::ColumnProduct<__nv_bfloat16, 2 * kFeatures, 16>(
            sums.features[c / 16], a, side.features, from);
      }
    }
  }
  if (first_feature > 0) return;
  if (p.excluded.data != nullptr) AddKept(s, side, column, sums);
  if (p.label_count > 0) AddLabels(s, side, rows, p.label_count, sums);
  if (kSidesOnly) return;
  if (p.histogram.data != nullptr || p.partials != nullptr) {
    const int ahead = __shfl_sync(~0u, first - begin, 0);
    const int high = BucketOf(ahead + 15);
    const int low = BucketOf(Max(ahead - (kRows - 1), -f.band.after));
    SpreadTile(s, ahead, Max(high, low), low, [&](int r, int b) -> float& {
      return shared.columns.histogram[rows.in_block + 8 * r][b];
    });
  }
}

template <bool kSidesOnly, class T, int kDim>
__device__ inline void ObserveRun(const ObserveParams& p, uint8_t* raw) {
  auto& shared = *reinterpret_cast<ObserveShared<T, kDim>*>(raw);
  RowColumns& columns = shared.columns;
  const ForwardParams& f = p.forward;
  const Task t = MakeTask(f, blockIdx.x, kRows, kRows);
  const int first_feature = blockIdx.y * kFeatures;
  const int batch = f.packed ? 0 : t.sequence;
  const T* q =
      RowsOf<T>(f.q, f.packed, t.sequence, t.extent.query_start, t.head);
  const T* k = RowsOf<T>(f.k, f.packed, t.sequence, t.extent.key_start,
                         t.head / f.queries_per_kv);
  KeySide next = {};
  const auto load = [&](int step) {
    const int begin = t.walk.Tile(step) * kRows;
    sm80::LoadTile(shared.k[step % 2], k + begin * f.k.row, f.k.row,
                   t.extent.key_len - begin, f.head_dim);
    LoadFeatures(p, t.extent, batch, begin, shared.side[step % 2]);
    CopyCommit();
    next.Read(p, t.extent, batch, begin);
  };
  if (t.count > 0) {
    sm80::LoadTile(shared.q, q + t.first_query * f.q.row, f.q.row,
                   t.extent.query_len - t.first_query, f.head_dim);
    load(0);
  }
  for (int i = threadIdx.x; i < kRows * kBuckets; i += kThreads) {
    (&columns.histogram[0][0])[i] = 0;
  }
  const ObservedRows rows = RowsOfThread(p, t, batch);
  ObservedRows used = rows;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    used.lse[r] = isfinite(rows.lse[r]) ? rows.lse[r] / kLn2 : kNothing;
  }
  Observed sums;
  for (int step = 0; step < t.count; ++step) {
    next.Put(p, shared.side[step % 2]);
    CopyWait<0>();
    __syncthreads();
    if (step + 1 < t.count) load(step + 1);
    ObserveTile<kSidesOnly>(p, t, shared, step % 2, t.walk.Tile(step) * kRows,
                            first_feature, used, sums);
  }
  __syncthreads();
  const int rows_len = f.packed ? t.extent.query_len : f.query_len;
  RowPlace at{batch, t.head, 0, 0, true, true};
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = rows.in_block + 8 * r;
    at.query = t.first_query + row;
    at.row = t.extent.query_start + at.query;
    at.inside = at.query < rows_len;
    at.counts = at.query < t.extent.query_len;
    FinishObserved<kSidesOnly>(p, sums, rows, r, at, first_feature == 0,
                               columns);
  }
  __syncthreads();
  const WorkItem item = f.order.At(blockIdx.x);
  const int64_t partial =
      (static_cast<int64_t>(item.sequence) * f.order.heads + item.head) *
          p.blocks +
      item.block;
  at.row = t.extent.query_start + t.first_query;
  StoreColumns<kSidesOnly>(p, columns, partial, at, rows_len - t.first_query,
                           first_feature);
}

// grid: (work items, parts of the features).
template <int kDim, bool kSidesOnly>
__global__ __launch_bounds__(kThreads, kDim <= 128 ? 3 : 1) void ObserveKernel(
    const __grid_constant__ ObserveParams p) {
  extern __shared__ __align__(128) uint8_t raw[];
  p.is_half ? ObserveRun<kSidesOnly, __half, kDim>(p, raw)
            : ObserveRun<kSidesOnly, __nv_bfloat16, kDim>(p, raw);
}

template <int kDim>
void Launch(const ObserveParams& params, cudaStream_t stream) {
  const int parts = Max(1, CeilDiv(params.feature_count, kFeatures));
  const auto kernel = params.sides_only ? ObserveKernel<kDim, true>
                                        : ObserveKernel<kDim, false>;
  LaunchKernel(kernel, dim3(params.forward.order.count(), parts), kThreads,
               sizeof(ObserveShared<__half, kDim>), stream,
               "attention cuda observe", params);
}

}  // namespace

void LaunchObserve(const ObserveParams& params, cudaStream_t stream) {
  if (params.forward.order.count() == 0) return;
  if (params.feature_count > 0) {
    const int64_t rows =
        static_cast<int64_t>(params.key_rows) * params.key_batches;
    const dim3 grid(static_cast<unsigned>((rows * kFeatures + 255) / 256),
                    CeilDiv(params.feature_count, kFeatures));
    if (rows > 0) SplitFeaturesKernel<<<grid, 256, 0, stream>>>(params);
  }
  if (params.forward.head_dim <= 64) {
    Launch<64>(params, stream);
  } else if (params.forward.head_dim <= 128) {
    Launch<128>(params, stream);
  } else {
    Launch<256>(params, stream);
  }
}

}  // namespace headwise::attention_cuda
