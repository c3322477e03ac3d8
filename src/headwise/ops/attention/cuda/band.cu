// Bands over (q, k, LSE): of each query the keys around its position, and the
// first key. A warp takes 16 queries of one head; the keys that their bands
// reach are the columns of a product. Door: launch.h.
#include "headwise/backend/cuda/backend.h"
#include "headwise/ops/attention/cuda/device/entry.cuh"
#include "headwise/ops/attention/cuda/device/mma.cuh"
#include "headwise/ops/attention/cuda/launch.h"
#include "headwise/ops/cuda/kernel.cuh"

namespace headwise::attention_cuda {
namespace {

constexpr int kThreads = 128, kWarps = kThreads / 32;
constexpr int kBlocks = 6;    // at least, of a multiprocessor's
constexpr int kQueries = 16;  // of a warp
// Tiles of eight keys, up to this many, are what bands of a warp reach.
constexpr int kMostTiles = 4;
constexpr int kMostWidth = 8 * kMostTiles - kQueries + 1;

// 16 queries of one head. Query first + r is row r, key c of its band is column
// r + c.
struct BandTask {
  int sequence, head, first;
  Extent extent;
  int64_t batch;
  int rows;  // that have a place in the results

  __device__ int Position(int row) const { return first + row + extent.offset; }
};

// Where a lane finds its queries and keys. For those of a place that does not
// exist another serves, and their scores are not used.
template <int kTiles>
struct BandRows {
  // Past the tiles the first key.
  const uint4 *q[2], *k[kTiles + 1];

  __device__ BandRows(const BandParams& p, const BandTask& t) {
    const ForwardParams& f = p.forward;
    const int in_tile = threadIdx.x % 32 / 4;
    const int kv_head =
        f.queries_per_kv == 1 ? t.head : t.head / f.queries_per_kv;
    const uint4* queries = RowAt(f.q, t.batch, t.extent.query_start, t.head);
    const uint4* keys = RowAt(f.k, t.batch, t.extent.key_start, kv_head);
    // In 16 bytes; LaunchBand sees to it that they are small enough.
    const int q_row = static_cast<int>(f.q.row >> 3);
    const int k_row = static_cast<int>(f.k.row >> 3);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int query = Min(t.first + in_tile + 8 * r, t.extent.query_len - 1);
      q[r] = queries + static_cast<int64_t>(query) * q_row;
    }
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
      const int key = t.Position(in_tile) - p.before + 8 * j;
      k[j] =
          keys +
          static_cast<int64_t>(Max(0, Min(key, t.extent.key_len - 1))) * k_row;
    }
    k[kTiles] = keys;
  }
};

// s[j]: 16 × 8 scores of tile j; past the tiles that of the first key. A lane
// loads 16 bytes of a query or key at once: which of their elements meet in one
// product is the same on both sides, and else of no account. All loads of 64
// columns go out before the first product, so that a warp waits for them once.
template <class T, int kTiles>
__device__ inline void BandScores(const BandRows<kTiles>& rows, int pieces,
                                  float (&s)[kTiles + 1][4]) {
#pragma unroll 1
  for (int from = 0; from < pieces; from += 8) {
    uint4 q[2][2], k[2][kTiles + 1];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int piece = from + 4 * half + threadIdx.x % 4;
      const int at = piece < pieces ? piece : from;
#pragma unroll
      for (int r = 0; r < 2; ++r) q[half][r] = cuda::LoadOnce(rows.q[r] + at);
#pragma unroll
      for (int j = 0; j <= kTiles; ++j) {
        k[half][j] = cuda::LoadOnce(rows.k[j] + at);
      }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint4 none = make_uint4(0, 0, 0, 0);
      const bool inside = from + 4 * half + threadIdx.x % 4 < pieces;
      const uint4 a = inside ? q[half][0] : none,
                  b = inside ? q[half][1] : none;
#pragma unroll
      for (int j = 0; j <= kTiles; ++j) {
        const uint4 c = inside ? k[half][j] : none;
        SmallProduct<T>(s[j], a.x, b.x, a.y, b.y, c.x, c.y);
        SmallProduct<T>(s[j], a.z, b.z, a.w, b.w, c.z, c.w);
      }
    }
  }
}

// A warp's scores on their way from where products leave them to a lane each.
struct BandShared {
  float band[kQueries * kMostWidth];  // row by row
  float first[kQueries];

  template <int kTiles>
  __device__ void Put(const float (&s)[kTiles + 1][4], int width) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + 8 * (i / 2);
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        const int c = 8 * j + 2 * (lane % 4) + i % 2 - row;
        if (static_cast<unsigned>(c) < static_cast<unsigned>(width)) {
          band[row * width + c] = s[j][i];
        }
      }
      if (lane % 4 == 0 && i % 2 == 0) first[row] = s[kTiles][i];
    }
  }
};

// A warp's scores to their places as entries. row: of the first query in the
// results; lse: in base 2, of query `lane`; inverse: ⌈2¹⁶ / width⌉.
template <bool kShaped>
__device__ inline void PutBand(const BandParams& p, const BandTask& t,
                               int64_t row, float lse, int inverse,
                               const BandShared& shared) {
  const ForwardParams& f = p.forward;
  const int lane = threadIdx.x % 32;
  const auto entry = [&](int in_warp, float score, int key, float own) {
    const int position = t.Position(in_warp);
    const bool seen = own != -INFINITY && key >= 0 &&
                      Sees(f.band, position, key, t.extent.key_len);
    return seen
               ? ProbabilityOf<kShaped>(f, t.head, score, position - key, own).z
               : 0;
  };
  float* mass =
      p.mass + t.batch * p.mass_batch + t.head * p.mass_head + row * p.mass_row;
  const int entries = t.rows * p.width;
  for (int from = 0; from < entries; from += 32) {
    const int i = from + lane, in_warp = i * inverse >> 16;
    const int c = i - in_warp * p.width;
    const float own = __shfl_sync(~0u, lse, in_warp % 32);
    if (i >= entries) continue;
    mass[in_warp * p.mass_row + c] =
        entry(in_warp, shared.band[i], t.Position(in_warp) - p.before + c, own);
  }
  if (p.first.data == nullptr || lane >= t.rows) return;
  static_cast<float*>(p.first.data)[t.batch * p.first.batch +
                                    t.head * p.first.head + row + lane] =
      entry(lane, shared.first[lane], 0, lse);
}

// grid: (⌈heads / 4⌉, blocks of 16 queries, sequences).
template <class T, int kTiles>
__global__ __launch_bounds__(kThreads, kBlocks) void BandKernel(
    const __grid_constant__ BandParams p, int inverse) {
  __shared__ BandShared all[kWarps];
  const ForwardParams& f = p.forward;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  BandShared& shared = all[warp];
  const int head = static_cast<int>(blockIdx.x) * kWarps + warp;
  if (head >= f.order.heads) return;
  BandTask t;
  t.sequence = static_cast<int>(blockIdx.z);
  t.head = HeadAt(f, head);
  t.first = static_cast<int>(blockIdx.y) * kQueries;
  t.extent = ExtentOf(f, t.sequence);
  t.batch = f.packed ? 0 : t.sequence;
  // Packed: the sequence may be shorter than the longest.
  const int len = f.packed ? t.extent.query_len : f.query_len;
  t.rows = Min(kQueries, len - t.first);
  if (t.rows <= 0) return;
  const int64_t row = t.extent.query_start + t.first;
  const int counted = Min(kQueries, t.extent.query_len - t.first);
  float lse = -INFINITY;
  if (lane < counted) {
    lse = static_cast<const float*>(
              f.lse.data)[t.batch * f.lse.batch + t.head * f.lse.head + row +
                          lane] *
          (1 / kLn2);
  }
  float s[kTiles + 1][4] = {};
  if (counted > 0 && t.extent.key_len > 0) {
    BandScores<T>(BandRows<kTiles>(p, t), f.head_dim / 8, s);
  }
  shared.Put<kTiles>(s, p.width);
  __syncwarp();
  WithShape(f, [&]<bool kShaped>(std::bool_constant<kShaped>) {
    PutBand<kShaped>(p, t, row, lse, inverse, shared);
  });
}

// A thread an entry, in order, so that a warp's rows of q and k lie together;
// the number of blocks is bounded. Behind a row's band comes the first key,
// where it is wanted. For rows of any kind and bands of any width.
__global__ __launch_bounds__(kThreads) void EntriesKernel(
    const __grid_constant__ BandParams p, int64_t entries) {
  const ForwardParams& f = p.forward;
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t n = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
       n < entries; n += step) {
    const int columns = p.width + (p.first.data != nullptr ? 1 : 0);
    const int c = static_cast<int>(n % columns);
    const int64_t rows = n / columns;
    const int query = static_cast<int>(rows % f.query_len);
    const int64_t heads = rows / f.query_len;
    const int head = HeadAt(f, static_cast<int>(heads % f.order.heads));
    const int sequence = static_cast<int>(heads / f.order.heads);
    // Packed: the sequence may be shorter than the longest.
    if (f.packed && query >= ExtentOf(f, sequence).query_len) continue;
    const QueryRow r = RowOf(f, sequence, query, head);
    const int64_t key = c < p.width ? int64_t{r.position} - p.before + c : 0;
    const float mass = key >= 0 && key < r.key_len
                           ? Entry(f, p.is_half, r, static_cast<int>(key))
                           : 0;
    if (c < p.width) {
      p.mass[r.batch * p.mass_batch + head * p.mass_head + r.row * p.mass_row +
             c] = mass;
    } else {
      static_cast<float*>(
          p.first.data)[r.batch * p.first.batch + head * p.first.head + r.row] =
          mass;
    }
  }
}

template <class T>
auto KernelOf(const BandParams& params) {
  return kQueries - 1 + params.width <= 8 * 3 ? BandKernel<T, 3>
                                              : BandKernel<T, kMostTiles>;
}

void LaunchEntries(const BandParams& params, cudaStream_t stream) {
  const ForwardParams& f = params.forward;
  const int columns = params.width + (params.first.data != nullptr ? 1 : 0);
  const int64_t entries = static_cast<int64_t>(columns) * f.query_len *
                          f.order.heads * f.order.sequences;
  if (entries == 0) return;
  const int64_t most = int64_t{1} << 30;
  const int64_t blocks = (entries + kThreads - 1) / kThreads;
  EntriesKernel<<<static_cast<unsigned>(blocks < most ? blocks : most),
                  kThreads, 0, stream>>>(params, entries);
}

}  // namespace

void LaunchBand(const BandParams& params, cudaStream_t stream) {
  const ForwardParams& f = params.forward;
  const dim3 grid(CeilDiv(f.order.heads, kWarps),
                  CeilDiv(f.query_len, kQueries), f.order.sequences);
  const bool fits = grid.y < (1 << 16) && grid.z < (1 << 16) &&
                    f.q.row <= INT32_MAX && f.k.row <= INT32_MAX;
  if (f.is_loose || params.width > kMostWidth || !fits) {
    LaunchEntries(params, stream);
  } else if (grid.x > 0 && grid.y > 0 && grid.z > 0) {
    const auto kernel = params.is_half ? KernelOf<__half>(params)
                                       : KernelOf<__nv_bfloat16>(params);
    kernel<<<grid, kThreads, 0, stream>>>(params,
                                          CeilDiv(1 << 16, params.width));
  }
  CheckCuda(cudaGetLastError(), "attention cuda band");
}

}  // namespace headwise::attention_cuda
