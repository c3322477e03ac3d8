// Features, labels and what is kept of excluded keys, where the forward pass
// has gathered all else. With the LSE known a probability is one exponential. A
// warp takes 32 queries of one head (16 of wide heads), which stay in its
// registers, and walks their keys 16 at a time: what is loaded of a key serves
// all of them. Door: launch.h.
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

// Of 16 queries, that a warp has.
template <int kDim>
inline constexpr int kTiles = kDim <= 128 ? 2 : 1;
// Two kinds of kernels: for at most two labels and scores that nothing but the
// scale shapes, which is what most profiles ask for and takes the fewest
// registers, and for all.
inline constexpr int kFewLabels = 2;
template <int kLabels>
inline constexpr bool kShapes = kLabels > kFewLabels;
// That find room on a processor beside each other.
template <int kDim, int kLabels>
inline constexpr int kBlocks = kDim > 64          ? 2
                               : kShapes<kLabels> ? 3
                                                  : 4;

template <class T, int kDim>
struct SidesShared {
  sm80::Tile<T, kDim> k[2];
  SideTile side[2];
  SideColumns columns[kTiles<kDim>];
};

// grid: (⌈B·N·8 / 256⌉, parts).
__global__ void SplitFeaturesKernel(const __grid_constant__ ObserveParams p) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  const int64_t rows = static_cast<int64_t>(p.key_rows) * p.key_batches;
  const int64_t row = i / kFeatures;
  if (row >= rows) return;
  const int feature = static_cast<int>(blockIdx.y * kFeatures + i % kFeatures);
  const float x =
      feature < p.feature_count
          ? *p.features.At(row / p.key_rows, row % p.key_rows, feature)
          : 0;
  const __nv_bfloat16 high = __float2bfloat16_rn(x);
  auto* to = static_cast<__nv_bfloat16*>(p.split_features) +
             2 * blockIdx.y * rows * kFeatures + i;
  to[0] = high;
  to[rows * kFeatures] = __float2bfloat16_rn(x - __bfloat162float(high));
}

// The same, but for the compiler unknown, which else works it out again at
// every use.
__device__ inline uint32_t Held(uint32_t value) {
  asm volatile("" : "+r"(value));
  return value;
}

// The thread's part of 16 queries as a product's operand, zeros past the end.
// row: its first of the task.
template <class T, int kDim>
__device__ inline void LoadQueries(const ForwardParams& f, const Task& t,
                                   int row, uint32_t (&q)[kDim / 16][4]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int query = t.first_query + row + 8 * r;
    const T* from = nullptr;
    if (query < t.extent.query_len) {
      from = RowsOf<T>(f.q, f.packed, t.sequence, t.extent.query_start + query,
                       t.head);
    }
#pragma unroll
    for (int i = 0; i < kDim / 8; ++i) {
      const int column = 8 * i + 2 * (threadIdx.x % 4);
      const bool valid = from != nullptr && column < f.head_dim;
      q[i / 2][r + 2 * (i % 2)] =
          valid ? *reinterpret_cast<const uint32_t*>(from + column) : 0;
    }
  }
}

// A thread's part of 16 queries.
template <class T, int kDim, int kLabels>
struct SideRows {
  int position;  // of the thread's first
  float lse[2];  // in base 2
  uint32_t q[kDim / 16][4];
  SideSums<kLabels> sums;

  // first: of the queries, in the block.
  __device__ void Load(const ObserveParams& p, const Task& t, int batch,
                       int first) {
    ObservedRows rows;
    rows.Load(p.forward, t, batch, first);
    position = rows.position;
    lse[0] = rows.Reference(0);
    lse[1] = rows.Reference(1);
    LoadQueries<T, kDim>(p.forward, t, rows.in_block, q);
    sums.LoadLabels(p, t, batch, rows.in_block);
  }

  // Scores of 16 keys become probabilities.
  template <bool kPlain>
  __device__ void Weigh(const ForwardParams& f, const Task& t, int column,
                        float (&s)[8]) const {
    if constexpr (!kPlain) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        if (!kShapes<kLabels> || !f.shape.any()) break;
        ShapeRow(f, t.head, s, r, position + 8 * r - column);
      }
      MaskTile(s, f.band, position, column, t.extent.key_len);
    }
    Probabilities(s, lse, f.scale_log2);
  }
};

// s: scores of 16 keys; at: of the first in shared memory, where the lane looks
// for its part of their first 16 dimensions.
template <class T, int kDim, int kLabels>
__device__ inline void Scores(
    const SideRows<T, kDim, kLabels> (&rows)[kTiles<kDim>], uint32_t at,
    float (&s)[kTiles<kDim>][8]) {
#pragma unroll
  for (int i = 0; i < 8 * kTiles<kDim>; ++i) s[i / 8][i % 8] = 0;
#pragma unroll
  for (int i = 0; i < kDim / 16; ++i) {
    uint32_t y[4];
    // The next two pieces of a row, as PieceAddress has them.
    LoadBlocks(y, (at ^ (32 * (i % 4))) + 128 * (i / 4));
#pragma unroll
    for (int m = 0; m < kTiles<kDim>; ++m) {
      const uint32_t(&q)[4] = rows[m].q[i];
      SmallProduct<T>(s[m], q[0], q[1], q[2], q[3], y[0], y[1]);
      SmallProduct<T>(s[m] + 4, q[0], q[1], q[2], q[3], y[2], y[3]);
    }
  }
}

// The tile of keys from `begin` on. kPlain: all rows of the warp see all of
// them, and nothing but the scale shapes scores. base: of `shared`.
template <bool kPlain, class T, int kDim, int kLabels>
__device__ inline void AddTile(
    const ForwardParams& f, const Task& t, const SidesShared<T, kDim>& shared,
    uint32_t base, int stage, int begin, int last_position,
    SideRows<T, kDim, kLabels> (&rows)[kTiles<kDim>]) {
  using Shared = SidesShared<T, kDim>;
  constexpr uint32_t kPitch = kDim * sizeof(T);
  const int lane = threadIdx.x % 32, in = lane % 8, block = lane / 8;
  const uint32_t k = base + static_cast<uint32_t>(offsetof(Shared, k)) +
                     stage * static_cast<uint32_t>(sizeof(shared.k[0])) +
                     (in + 8 * (block >> 1)) * kPitch + ((block & 1) ^ in) * 16;
  const uint32_t side = base + static_cast<uint32_t>(offsetof(Shared, side)) +
                        stage * static_cast<uint32_t>(sizeof(SideTile));
#pragma unroll 1
  for (int first = kRows - 16; first >= 0; first -= 16) {
    if (!kPlain && begin + first - last_position > f.band.after) continue;
    const int column = begin + first + 2 * (lane % 4);
    const SideKeys<kLabels> keys(side, first);
    float s[kTiles<kDim>][8];
    Scores(rows, k + first * kPitch, s);
    bool exceeds = false;
#pragma unroll
    for (int m = 0; m < kTiles<kDim>; ++m) {
      rows[m].template Weigh<kPlain>(f, t, column, s[m]);
      rows[m].sums.Add(s[m], keys);
      exceeds |= rows[m].sums.Exceeds(s[m], 0) | rows[m].sums.Exceeds(s[m], 1);
    }
    if (!__any_sync(~0u, exceeds)) continue;
    const uint32_t excluded = ExcludedFrom(shared.side[stage], first);
#pragma unroll
    for (int i = 0; i < 2 * kTiles<kDim>; ++i) {
      rows[i / 2].sums.Keep(s[i / 2], i % 2, excluded, column);
    }
  }
}

template <class T, int kDim, int kLabels>
__device__ inline void SidesRun(const ObserveParams& p, uint8_t* raw) {
  auto& shared = *reinterpret_cast<SidesShared<T, kDim>*>(raw);
  const ForwardParams& f = p.forward;
  Task t = MakeTask(f, blockIdx.x, kTiles<kDim> * kRows, kRows);
  const int batch = f.packed ? 0 : t.sequence;
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
  if (t.count > 0) load(0);
  const int first_row = threadIdx.x / 32 * 16 * kTiles<kDim>;
  SideRows<T, kDim, kLabels> rows[kTiles<kDim>];
#pragma unroll
  for (int m = 0; m < kTiles<kDim>; ++m) {
    rows[m].Load(p, t, batch, first_row + 16 * m);
  }
  const uint32_t base = Held(SharedAddress(raw));
  const int first_position = t.first_query + first_row + t.extent.offset;
  const int last_position = first_position + 16 * kTiles<kDim> - 1;
  for (int step = 0; step < t.count; ++step) {
    source.Put(shared.side[step % 2]);
    CopyWait<0>();
    __syncthreads();
    if (step + 1 < t.count) load(step + 1);
    const int begin = t.walk.Tile(step) * kRows;
    if (TileIsFull(f.band, first_position, last_position, t.extent.key_len,
                   begin, kRows) &&
        (!kShapes<kLabels> || !f.shape.any())) {
      AddTile<true>(f, t, shared, base, step % 2, begin, last_position, rows);
    } else {
      AddTile<false>(f, t, shared, base, step % 2, begin, last_position, rows);
    }
  }
  __syncthreads();
  RowPlace at;
#pragma unroll
  for (int i = 0; i < 2 * kTiles<kDim>; ++i) {
    const auto& sums = rows[i / 2].sums;
    ObservedRows own;
    own.Load(f, t, batch, first_row + 16 * (i / 2));
    const int r = i % 2, row = own.in_block + 8 * r;
    at = own.Place(f, t, batch, r);
    const Shown shown(at, own.lse[r]);
    FinishSides(p, sums, r, row % kRows, at, shown,
                shared.columns[row / kRows]);
    // Where no key is excluded the forward pass has put it.
    if (threadIdx.x % 4 == 0 && blockIdx.y == 0 && at.inside &&
        !p.kept_is_max) {
      PutKept(p, at, shown, sums.Kept(r), sums.kept_place[r]);
    }
  }
  __syncthreads();
  const int len = f.packed ? t.extent.query_len : f.query_len;
  for (int half = 0; half < kTiles<kDim>; ++half, t.first_query += kRows) {
    if (t.first_query / kRows >= p.blocks) break;
    at.row = t.extent.query_start + t.first_query;
    StoreSides(p, shared.columns[half], PartialOf(p, t), at,
               len - t.first_query);
  }
}

// grid: (work items, parts of the features).
template <class T, int kDim, int kLabels>
__global__ __launch_bounds__(kThreads, kBlocks<kDim, kLabels>) void SidesKernel(
    const __grid_constant__ ObserveParams p) {
  extern __shared__ __align__(128) uint8_t raw[];
  SidesRun<T, kDim, kLabels>(p, raw);
}

template <class T, int kDim, int kLabels>
void Launch(ObserveParams params, cudaStream_t stream) {
  const int parts = Max(1, CeilDiv(params.feature_count, kFeatures));
  WorkOrder& order = params.forward.order;
  order.blocks = CeilDiv(params.forward.query_len, kTiles<kDim> * kRows);
  LaunchKernel(SidesKernel<T, kDim, kLabels>, dim3(order.count(), parts),
               kThreads, sizeof(SidesShared<T, kDim>), stream,
               "attention cuda sides", params);
}

template <class T, int kDim>
void Launch(const ObserveParams& params, cudaStream_t stream) {
  params.label_count <= kFewLabels && !params.forward.shape.any()
      ? Launch<T, kDim, kFewLabels>(params, stream)
      : Launch<T, kDim, kMostLabels>(params, stream);
}

template <class T>
void Launch(const ObserveParams& params, cudaStream_t stream) {
  if (params.forward.head_dim <= 64) {
    Launch<T, 64>(params, stream);
  } else if (params.forward.head_dim <= 128) {
    Launch<T, 128>(params, stream);
  } else {
    Launch<T, 256>(params, stream);
  }
}

}  // namespace

void LaunchSplitFeatures(const ObserveParams& params, cudaStream_t stream) {
  const int64_t rows =
      static_cast<int64_t>(params.key_rows) * params.key_batches;
  if (params.feature_count == 0 || rows == 0) return;
  const dim3 grid(static_cast<unsigned>((rows * kFeatures + 255) / 256),
                  CeilDiv(params.feature_count, kFeatures));
  SplitFeaturesKernel<<<grid, 256, 0, stream>>>(params);
}

void LaunchSides(const ObserveParams& params, cudaStream_t stream) {
  params.is_half ? Launch<__half>(params, stream)
                 : Launch<__nv_bfloat16>(params, stream);
}

}  // namespace headwise::attention_cuda
