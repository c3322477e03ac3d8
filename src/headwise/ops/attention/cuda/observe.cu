// Statistics beyond the core: varentropy, Σp², histogram, and what keys say
// beside their scores. A pass over (q, k, LSE) after the forward: with the LSE
// known a probability is one exponential and every statistic a plain sum. A
// block takes 64 queries of one head, 16 a warp, and walks their keys 64 at a
// time. Door: launch.h.
#include "headwise/ops/attention/cuda/device/mask.cuh"
#include "headwise/ops/attention/cuda/device/score.cuh"
#include "headwise/ops/attention/cuda/device/sides.cuh"
#include "headwise/ops/attention/cuda/device/task.cuh"
#include "headwise/ops/attention/cuda/launch.h"
#include "headwise/ops/attention/cuda/launch_kernel.cuh"

namespace headwise::attention_cuda {
namespace {

using sm80::kRows;
using sm80::kThreads;
static_assert(kRows == kObserveRows);

using AllSums = SideSums<kMostLabels>;

template <class T, int kDim>
struct ObserveShared {
  sm80::Tile<T, kDim> q, k[2];
  SideTile side[2];
  SideColumns columns;
  float histogram[kRows][kBuckets];
};

template <class T, int kDim>
__device__ inline void ObserveTile(const ObserveParams& p, const Task& t,
                                   ObserveShared<T, kDim>& shared, int stage,
                                   int begin, const ObservedRows& rows,
                                   const float (&lse)[2], LogSums& logs,
                                   AllSums& sums) {
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
  const int position = t.first_query + first_row + t.extent.offset;
  if (!TileIsFull(f.band, position, position + 15, t.extent.key_len, begin,
                  kRows)) {
    MaskTile(s, f.band, rows.position, column, t.extent.key_len);
  }
  AddProbabilities(s, lse, f.scale_log2, logs);
#pragma unroll
  for (int first = kRows - 16; first >= 0; first -= 16) {
    float e[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) e[i] = s[first / 2 + i];
    const SideKeys<kMostLabels> keys(SharedAddress(&shared.side[stage]), first);
    sums.Add(e, keys);
    const uint32_t excluded = ExcludedFrom(shared.side[stage], first);
    sums.Keep(e, 0, excluded, column + first);
    sums.Keep(e, 1, excluded, column + first);
  }
  if (blockIdx.y > 0) return;
  if (p.histogram.data != nullptr || p.partials != nullptr) {
    const int ahead = __shfl_sync(~0u, position - begin, 0);
    const int high = BucketOf(ahead + 15);
    const int low = BucketOf(Max(ahead - (kRows - 1), -f.band.after));
    SpreadTile(s, ahead, Max(high, low), low, [&](int r, int b) -> float& {
      return shared.histogram[rows.in_block + 8 * r][b];
    });
  }
}

// Row r's single numbers to their places, its several into shared memory.
template <class T, int kDim>
__device__ inline void FinishRow(const ObserveParams& p,
                                 const ObservedRows& rows, const RowPlace& at,
                                 const LogSums& logs, const AllSums& sums,
                                 int r, ObserveShared<T, kDim>& shared) {
  const int row = rows.in_block + 8 * r;
  const float log = QuadSum(logs.log[r]);
  const float square_log = QuadSum(logs.square_log[r]);
  const float squares = QuadSum(logs.squares[r]);
  const Shown shown(at, rows.lse[r]);
  FinishSides(p, sums, r, row, at, shown, shared.columns);
  if (threadIdx.x % 4 != 0) return;
  for (int c = 0; c < kBuckets; ++c) {
    shared.histogram[row][c] = shown(shared.histogram[row][c]);
  }
  if (!at.inside || blockIdx.y > 0) return;
  PutObserved(p, at, shown, log, square_log, squares);
  float kept = sums.Kept(r);
  int place = sums.kept_place[r];
  if (p.kept_is_max) kept = KeptMaximum(p.forward, at, place);
  PutKept(p, at, shown, kept, place);
}

template <class T, int kDim>
__device__ inline void ObserveRun(const ObserveParams& p, uint8_t* raw) {
  auto& shared = *reinterpret_cast<ObserveShared<T, kDim>*>(raw);
  const ForwardParams& f = p.forward;
  const Task t = MakeTask(f, blockIdx.x, kRows, kRows);
  const int batch = f.packed ? 0 : t.sequence;
  const T* q =
      RowsOf<T>(f.q, f.packed, t.sequence, t.extent.query_start, t.head);
  const T* k = RowsOf<T>(f.k, f.packed, t.sequence, t.extent.key_start,
                         t.head / f.queries_per_kv);
  SideSource source(p, t.extent, batch);
  const auto load = [&](int step) {
    const int begin = t.walk.Tile(step) * kRows;
    sm80::LoadTile(shared.k[step % 2], k + begin * f.k.row, f.k.row,
                   t.extent.key_len - begin, f.head_dim);
    source.Load(p, t.extent, begin, shared.side[step % 2]);
    CopyCommit();
  };
  if (t.count > 0) {
    sm80::LoadTile(shared.q, q + t.first_query * f.q.row, f.q.row,
                   t.extent.query_len - t.first_query, f.head_dim);
    load(0);
  }
  for (int i = threadIdx.x; i < kRows * kBuckets; i += kThreads) {
    (&shared.histogram[0][0])[i] = 0;
  }
  ObservedRows rows;
  rows.Load(f, t, batch, threadIdx.x / 32 * 16);
  const float lse[2] = {rows.Reference(0), rows.Reference(1)};
  LogSums logs;
  AllSums sums;
  sums.LoadLabels(p, t, batch, rows.in_block);
  for (int step = 0; step < t.count; ++step) {
    source.Put(shared.side[step % 2]);
    CopyWait<0>();
    __syncthreads();
    if (step + 1 < t.count) load(step + 1);
    ObserveTile(p, t, shared, step % 2, t.walk.Tile(step) * kRows, rows, lse,
                logs, sums);
  }
  __syncthreads();
  RowPlace at;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    at = rows.Place(f, t, batch, r);
    FinishRow(p, rows, at, logs, sums, r, shared);
  }
  __syncthreads();
  at.row = t.extent.query_start + t.first_query;
  const int len = f.packed ? t.extent.query_len : f.query_len;
  const int64_t partial = PartialOf(p, t);
  StoreSides(p, shared.columns, partial, at, len - t.first_query);
  if (blockIdx.y > 0) return;
  StoreColumns(p, p.histogram, shared.columns.weight, partial, at,
               len - t.first_query, kBuckets, 0, 0,
               [&](int row, int c) { return shared.histogram[row][c]; });
}

// grid: (work items, parts of the features).
template <int kDim>
__global__ __launch_bounds__(kThreads, kDim <= 128 ? 2 : 1) void ObserveKernel(
    const __grid_constant__ ObserveParams p) {
  extern __shared__ __align__(128) uint8_t raw[];
  p.is_half ? ObserveRun<__half, kDim>(p, raw)
            : ObserveRun<__nv_bfloat16, kDim>(p, raw);
}

template <int kDim>
void Launch(const ObserveParams& params, cudaStream_t stream) {
  const int parts = Max(1, CeilDiv(params.feature_count, kFeatures));
  LaunchKernel(ObserveKernel<kDim>, dim3(params.forward.order.count(), parts),
               kThreads, sizeof(ObserveShared<__half, kDim>), stream,
               "attention cuda observe", params);
}

}  // namespace

void LaunchObserve(const ObserveParams& params, cudaStream_t stream) {
  if (params.forward.order.count() == 0) return;
  LaunchSplitFeatures(params, stream);
  if (params.sides_only) {
    LaunchSides(params, stream);
  } else if (params.forward.head_dim <= 64) {
    Launch<64>(params, stream);
  } else if (params.forward.head_dim <= 128) {
    Launch<128>(params, stream);
  } else {
    Launch<256>(params, stream);
  }
}

}  // namespace headwise::attention_cuda
