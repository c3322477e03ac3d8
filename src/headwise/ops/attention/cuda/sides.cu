// Features, labels and what is kept of excluded keys, where the forward pass
// has gathered all else. With the LSE known a probability is one exponential. A
// block takes 64 queries of one head, 16 a warp, and walks their keys 64 at a
// time; queries stay in registers, so that many blocks find room. Door:
// launch.h.
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

template <class T, int kDim>
struct SidesShared {
  sm80::Tile<T, kDim> k[2];
  SideTile side[2];
  RowLabels labels;
  SideColumns columns;
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

// The thread's part of the warp's 16 queries as a product's operand, zeros past
// the end.
template <class T, int kDim>
__device__ inline void LoadQueries(const ForwardParams& f, const Task& t,
                                   int in_block, uint32_t (&q)[kDim / 16][4]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int query = t.first_query + in_block + 8 * r;
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

// s[16 × 32]: scores of a tile's keys from `first` on.
template <class T, int kDim>
__device__ inline void Scores(const uint32_t (&q)[kDim / 16][4],
                              const sm80::Tile<T, kDim>& k, int first,
                              int steps, float (&s)[16]) {
  const int lane = threadIdx.x % 32, in = lane % 8, block = lane / 8;
#pragma unroll
  for (int i = 0; i < 16; ++i) s[i] = 0;
#pragma unroll
  for (int i = 0; i < kDim / 16; ++i) {
    if (i >= steps) break;
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      uint32_t y[4];
      LoadBlocks(y, PieceAddress(k, first + 16 * n + in + 8 * (block >> 1),
                                 2 * i + (block & 1)));
      SmallProduct<T>(s + 8 * n, q[i][0], q[i][1], q[i][2], q[i][3], y[0],
                      y[1]);
      SmallProduct<T>(s + 8 * n + 4, q[i][0], q[i][1], q[i][2], q[i][3], y[2],
                      y[3]);
    }
  }
}

template <class T, int kDim>
__device__ inline void SidesRun(const ObserveParams& p, uint8_t* raw) {
  auto& shared = *reinterpret_cast<SidesShared<T, kDim>*>(raw);
  const ForwardParams& f = p.forward;
  const Task t = MakeTask(f, blockIdx.x, kRows, kRows);
  const int batch = f.packed ? 0 : t.sequence;
  const T* k = RowsOf<T>(f.k, f.packed, t.sequence, t.extent.key_start,
                         t.head / f.queries_per_kv);
  KeySide next;
  const auto load = [&](int step) {
    const int begin = t.walk.Tile(step) * kRows;
    sm80::LoadTile(shared.k[step % 2], k + begin * f.k.row, f.k.row,
                   t.extent.key_len - begin, f.head_dim);
    LoadSides(p, t.extent, batch, begin, shared.side[step % 2]);
    CopyCommit();
    next.Read(p, t.extent, batch, begin);
  };
  if (t.count > 0) load(0);
  const ObservedRows rows(f, t, batch);
  LoadRowLabels(p, t, batch, shared.labels);
  uint32_t q[kDim / 16][4];
  LoadQueries<T, kDim>(f, t, rows.in_block, q);
  const float lse[2] = {rows.Reference(0), rows.Reference(1)};
  const int steps = CeilDiv(f.head_dim, 16);
  const int first_position =
      t.first_query + threadIdx.x / 32 * 16 + t.extent.offset;
  SideSums sums;
  for (int step = 0; step < t.count; ++step) {
    next.Put(shared.side[step % 2]);
    CopyWait<0>();
    __syncthreads();
    if (step + 1 < t.count) load(step + 1);
    const int begin = t.walk.Tile(step) * kRows;
    const bool full = TileIsFull(f.band, first_position, first_position + 15,
                                 t.extent.key_len, begin, kRows);
#pragma unroll 1
    for (int first = kRows - 32; first >= 0; first -= 32) {
      const int column = begin + first + 2 * (threadIdx.x % 4);
      float s[16];
      Scores<T, kDim>(q, shared.k[step % 2], first, steps, s);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        if (!f.shape.any()) break;
        ShapeRow(f, t.head, s, r, rows.position + 8 * r - column);
      }
      if (!full) MaskTile(s, f.band, rows.position, column, t.extent.key_len);
      Probabilities(s, lse, f.scale_log2);
      AddSides(p, s, shared.side[step % 2], first, column, shared.labels,
               rows.in_block, sums);
    }
  }
  __syncthreads();
  RowPlace at;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    at = rows.Place(f, t, batch, r);
    const Shown shown(at, rows.lse[r]);
    const Kept kept =
        FinishSides(p, sums, shared.labels, r, rows.in_block + 8 * r, at, shown,
                    shared.columns);
    // Where no key is excluded the forward pass has put it.
    if (threadIdx.x % 4 == 0 && blockIdx.y == 0 && at.inside &&
        !p.kept_is_max) {
      PutKept(p, at, shown, kept.share, kept.place);
    }
  }
  __syncthreads();
  at.row = t.extent.query_start + t.first_query;
  const int len = f.packed ? t.extent.query_len : f.query_len;
  StoreSides(p, shared.columns, PartialOf(p), at, len - t.first_query);
}

// That find room on a processor beside each other.
constexpr int Blocks(int dim) { return dim <= 128 ? 4 : 2; }

// grid: (work items, parts of the features).
template <int kDim>
__global__ __launch_bounds__(kThreads, Blocks(kDim)) void SidesKernel(
    const __grid_constant__ ObserveParams p) {
  extern __shared__ __align__(128) uint8_t raw[];
  p.is_half ? SidesRun<__half, kDim>(p, raw)
            : SidesRun<__nv_bfloat16, kDim>(p, raw);
}

template <int kDim>
void Launch(const ObserveParams& params, cudaStream_t stream) {
  const int parts = Max(1, CeilDiv(params.feature_count, kFeatures));
  LaunchKernel(SidesKernel<kDim>, dim3(params.forward.order.count(), parts),
               kThreads, sizeof(SidesShared<__half, kDim>), stream,
               "attention cuda sides", params);
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
  if (params.forward.head_dim <= 64) {
    Launch<64>(params, stream);
  } else if (params.forward.head_dim <= 128) {
    Launch<128>(params, stream);
  } else {
    Launch<256>(params, stream);
  }
}

}  // namespace headwise::attention_cuda
