// Bands over (q, k, LSE): of each query the keys around its position, and the
// first key. A warp takes 16 queries of one head; the keys that their bands
// reach are the columns of a product. Door: launch.h.
#include "headwise/backend/cuda/backend.h"
#include "headwise/ops/attention/cuda/device/entry.cuh"
#include "headwise/ops/attention/cuda/device/mma.cuh"
#include "headwise/ops/attention/cuda/launch.h"

namespace headwise::attention_cuda {
namespace {

constexpr int kThreads = 128, kWarps = kThreads / 32;
constexpr int kQueries = 16;  // of a warp
constexpr int kTiles = 4;     // of eight keys that bands reach
constexpr int kMostWidth = 8 * kTiles - kQueries + 1;

// Entries of a warp's 16 queries of one head. Query first + r is row r, key
// c of its band is column r + c.
struct BandTask {
  int sequence, head, first;
  Extent extent;
  int64_t batch;
  int rows;  // that have a place in the results

  __device__ int Position(int row) const { return first + row + extent.offset; }
};

// 16 bytes of a row, or zeros.
__device__ inline uint4 PieceOf(const uint4* row, int piece) {
  return row != nullptr ? row[piece] : make_uint4(0, 0, 0, 0);
}

// s[j]: 16 × 8 scores of tile j; past the tiles that of the first key. A lane
// loads 16 bytes of a query or key at once: which of their elements meet in one
// product is the same on both sides, and else of no account.
template <class T>
__device__ inline void BandScores(const BandParams& p, const BandTask& t,
                                  int tiles, float (&s)[kTiles + 1][4]) {
  const ForwardParams& f = p.forward;
  const int lane = threadIdx.x % 32;
  const int kv_head = t.head / f.queries_per_kv;
  const uint4 *q[2], *k[kTiles + 1];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int query = t.first + lane / 4 + 8 * r;
    q[r] = query < t.extent.query_len
               ? RowAt(f.q, t.batch, t.extent.query_start + query, t.head)
               : nullptr;
  }
#pragma unroll
  for (int j = 0; j <= kTiles; ++j) {
    int key = t.Position(0) - p.before + 8 * j + lane / 4;
    bool used = j < tiles;
    if (j == kTiles) {
      key = 0;
      used = p.first.data != nullptr && lane / 4 == 0;
    }
    k[j] = used && key >= 0 && key < t.extent.key_len
               ? RowAt(f.k, t.batch, t.extent.key_start + key, kv_head)
               : nullptr;
  }
  const int pieces = f.head_dim / 8;
#pragma unroll 2
  for (int from = 0; from < pieces; from += 4) {
    const int piece = from + lane % 4;
    const bool inside = piece < pieces;
    const uint4 a = PieceOf(inside ? q[0] : nullptr, piece);
    const uint4 b = PieceOf(inside ? q[1] : nullptr, piece);
#pragma unroll
    for (int j = 0; j <= kTiles; ++j) {
      const uint4 c = PieceOf(inside ? k[j] : nullptr, piece);
      SmallProduct<T>(s[j], a.x, b.x, a.y, b.y, c.x, c.y);
      SmallProduct<T>(s[j], a.z, b.z, a.w, b.w, c.z, c.w);
    }
  }
}

// grid: ⌈sequences · blocks of 16 queries · heads / 4⌉.
template <class T>
__global__ __launch_bounds__(kThreads) void BandKernel(
    const __grid_constant__ BandParams p, int blocks) {
  __shared__ float shared[kWarps][kQueries * kMostWidth];
  const ForwardParams& f = p.forward;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  // Heads of the same queries lie together.
  const int64_t n = static_cast<int64_t>(blockIdx.x) * kWarps + warp;
  const int64_t of_sequence = static_cast<int64_t>(f.order.heads) * blocks;
  BandTask t;
  t.sequence = static_cast<int>(n / of_sequence);
  if (t.sequence >= f.order.sequences) return;
  t.head = HeadAt(f, static_cast<int>(n % f.order.heads));
  t.first = static_cast<int>(n % of_sequence / f.order.heads) * kQueries;
  t.extent = ExtentOf(f, t.sequence);
  t.batch = f.packed ? 0 : t.sequence;
  // Packed: the sequence may be shorter than the longest.
  const int len = f.packed ? t.extent.query_len : f.query_len;
  t.rows = Min(kQueries, len - t.first);
  if (t.rows <= 0) return;
  float s[kTiles + 1][4] = {};
  const int tiles = CeilDiv(kQueries - 1 + p.width, 8);
  BandScores<T>(p, t, tiles, s);
  float lse[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int query = t.first + lane / 4 + 8 * r;
    lse[r] = -INFINITY;
    if (query < t.extent.query_len) {
      lse[r] = static_cast<const float*>(
          f.lse.data)[t.batch * f.lse.batch + t.head * f.lse.head +
                      t.extent.query_start + query];
    }
  }
  const int64_t row = t.extent.query_start + t.first;
  WithShape(f, [&]<bool kShaped>(std::bool_constant<kShaped>) {
    const auto entry = [&](int r, float score, int64_t key) -> float {
      const int position = t.Position(lane / 4 + 8 * r);
      if (lse[r] == -INFINITY || key < 0 || key >= t.extent.key_len ||
          !Sees(f.band, position, static_cast<int>(key), t.extent.key_len)) {
        return 0;
      }
      return ProbabilityOf<kShaped>(f, t.head, score,
                                    position - static_cast<int>(key),
                                    lse[r] / kLn2)
          .z;
    };
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int in_warp = lane / 4 + 8 * (i / 2);
        const int column = 8 * j + 2 * (lane % 4) + i % 2;
        const int c = column - in_warp;
        if (c < 0 || c >= p.width) continue;
        shared[warp][in_warp * p.width + c] =
            entry(i / 2, s[j][i], int64_t{t.Position(0)} - p.before + column);
      }
    }
    if (p.first.data == nullptr || lane % 4 != 0) return;
    float* first = static_cast<float*>(p.first.data) + t.batch * p.first.batch +
                   t.head * p.first.head + row;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int in_warp = lane / 4 + 8 * r;
      if (in_warp < t.rows) first[in_warp] = entry(r, s[kTiles][2 * r], 0);
    }
  });
  __syncwarp();
  float* mass =
      p.mass + t.batch * p.mass_batch + t.head * p.mass_head + row * p.mass_row;
  for (int i = lane; i < t.rows * p.width; i += 32) {
    mass[i / p.width * p.mass_row + i % p.width] = shared[warp][i];
  }
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
  const int blocks = CeilDiv(f.query_len, kQueries);
  const int64_t warps =
      static_cast<int64_t>(blocks) * f.order.heads * f.order.sequences;
  const int64_t grid = (warps + kWarps - 1) / kWarps;
  if (f.is_loose || params.width > kMostWidth || grid > INT32_MAX) {
    LaunchEntries(params, stream);
  } else if (grid > 0) {
    const auto kernel =
        params.is_half ? BandKernel<__half> : BandKernel<__nv_bfloat16>;
    kernel<<<static_cast<unsigned>(grid), kThreads, 0, stream>>>(params,
                                                                 blocks);
  }
  CheckCuda(cudaGetLastError(), "attention cuda band");
}

}  // namespace headwise::attention_cuda
