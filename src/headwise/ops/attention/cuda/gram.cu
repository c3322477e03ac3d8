// Bhattacharyya coefficients Σ_j √(A^a_ij · A^b_ij) between heads, averaged
// over rows. A block takes 16 × 16 pairs of heads and a chunk of queries,
// computes √A of its 32 heads for a few queries and keys at a time, and
// multiplies; the chunks are added in order. Door: launch.h.
#include "headwise/backend/cuda/backend.h"
#include "headwise/ops/attention/cuda/device/entry.cuh"
#include "headwise/ops/attention/cuda/launch.h"

namespace headwise::attention_cuda {
namespace {

constexpr int kSide = 16;  // heads on each side of a block's pairs
constexpr int kThreads = kSide * kSide;
constexpr int kQueries = 4, kKeys = 32;
constexpr int kEntries = kQueries * kKeys;

// A row counts where every head's LSE is finite. grid: (⌈M / 256⌉, sequences).
__global__ __launch_bounds__(kThreads) void RowWeightsKernel(
    const __grid_constant__ GramParams p) {
  const int query = blockIdx.x * kThreads + threadIdx.x;
  if (query >= p.query_len) return;
  const ForwardParams& first = p.sources[0].forward;
  const Extent extent = ExtentOf(first, blockIdx.y);
  const int64_t batch = first.packed ? 0 : blockIdx.y;
  const int64_t row = extent.query_start + query;
  bool counts = query < extent.query_len;
  for (int h = 0; counts && h < p.head_count; ++h) {
    const RowResult& lse = p.sources[p.heads[h].source].forward.lse;
    counts = isfinite(static_cast<const float*>(
        lse.data)[batch * lse.batch + p.heads[h].head * lse.head + row]);
  }
  const float weight =
      p.weights.data != nullptr && counts ? *p.weights.At(batch, row, 0) : 1;
  p.row_weights[static_cast<int64_t>(blockIdx.y) * p.query_len + query] =
      counts ? weight : 0;
}

// √A of 32 heads for kQueries queries from `first` and kKeys keys from `begin`,
// those of the first 16 times the row's weight.
__device__ inline void FillRoots(const GramParams& p, int tile_a, int tile_b,
                                 int sequence, int first, int begin,
                                 const float* weights,
                                 float (&roots)[2 * kSide][kEntries + 1]) {
  for (int i = threadIdx.x; i < 2 * kSide * kEntries; i += kThreads) {
    const int slot = i / kEntries, entry = i % kEntries;
    const int query = first + entry / kKeys, key = begin + entry % kKeys;
    const int h = (slot < kSide ? tile_a : tile_b) * kSide + slot % kSide;
    float root = 0;
    const float weight = query < p.query_len ? weights[query] : 0;
    if (h < p.head_count && weight != 0) {
      const GramSource& source = p.sources[p.heads[h].source];
      const QueryRow r =
          RowOf(source.forward, sequence, query, p.heads[h].head);
      root = sqrtf(Entry(source.forward, source.is_half, r, key));
      if (slot < kSide) root *= weight;
    }
    roots[slot][entry] = root;
  }
}

// grid: (pairs of tiles, chunks, sequences).
__global__ __launch_bounds__(kThreads) void GramKernel(
    const __grid_constant__ GramParams p) {
  __shared__ float roots[2 * kSide][kEntries + 1];
  // Pair number n of tiles: row a holds a + 1 of them.
  int tile_a = 0;
  while ((tile_a + 1) * (tile_a + 2) / 2 <= static_cast<int>(blockIdx.x)) {
    ++tile_a;
  }
  const int tile_b = blockIdx.x - tile_a * (tile_a + 1) / 2;
  const int sequence = blockIdx.z;
  const ForwardParams& f = p.sources[0].forward;
  const Extent extent = ExtentOf(f, sequence);
  const float* weights =
      p.row_weights + static_cast<int64_t>(sequence) * p.query_len;
  const int a = threadIdx.x / kSide, b = threadIdx.x % kSide;
  double sum = 0;
  const int chunk_begin = blockIdx.y * kGramQueries;
  const int chunk_end = Min(extent.query_len, chunk_begin + kGramQueries);
  for (int first = chunk_begin; first < chunk_end; first += kQueries) {
    const int last = Min(chunk_end, first + kQueries) - 1;
    const KeyWalk walk = WalkKeys(f.band, first + extent.offset,
                                  last + extent.offset, extent.key_len, kKeys);
    for (int step = 0; step < walk.count(); ++step) {
      __syncthreads();
      FillRoots(p, tile_a, tile_b, sequence, first, walk.Tile(step) * kKeys,
                weights, roots);
      __syncthreads();
      float part = 0;
#pragma unroll 8
      for (int e = 0; e < kEntries; ++e) {
        part = fmaf(roots[a][e], roots[kSide + b][e], part);
      }
      sum += part;
    }
  }
  const int i = tile_a * kSide + a, j = tile_b * kSide + b;
  if (i >= p.head_count || j >= p.head_count) return;
  double* to =
      p.partials + (static_cast<int64_t>(sequence) * p.chunks + blockIdx.y) *
                       p.head_count * p.head_count;
  to[static_cast<int64_t>(i) * p.head_count + j] = sum;
  if (tile_a != tile_b) to[static_cast<int64_t>(j) * p.head_count + i] = sum;
}

// One block: the weights' sum, then every pair's mean.
__global__ __launch_bounds__(kThreads) void MeanKernel(
    const __grid_constant__ GramParams p) {
  __shared__ double shared[kThreads];
  const int64_t rows = static_cast<int64_t>(p.sequences) * p.query_len;
  double weight = 0;
  for (int64_t i = threadIdx.x; i < rows; i += kThreads) {
    weight += p.row_weights[i];
  }
  shared[threadIdx.x] = weight;
  __syncthreads();
  for (int step = kThreads / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) shared[threadIdx.x] += shared[threadIdx.x + step];
    __syncthreads();
  }
  weight = shared[0];
  const int64_t cells = static_cast<int64_t>(p.head_count) * p.head_count;
  const int64_t parts = static_cast<int64_t>(p.sequences) * p.chunks;
  for (int64_t c = threadIdx.x; c < cells; c += kThreads) {
    double sum = 0;
    for (int64_t part = 0; part < parts; ++part) {
      sum += p.partials[part * cells + c];
    }
    *p.gram.At(p.heads[c / p.head_count].index, p.heads[c % p.head_count].index,
               0) = weight == 0 ? 0 : sum / weight;
  }
}

}  // namespace

void LaunchGram(const GramParams& params, cudaStream_t stream) {
  if (params.sequences > 0 && params.chunks > 0) {
    const int tiles = CeilDiv(params.head_count, kSide);
    RowWeightsKernel<<<dim3(CeilDiv(params.query_len, kThreads),
                            params.sequences),
                       kThreads, 0, stream>>>(params);
    GramKernel<<<dim3(tiles * (tiles + 1) / 2, params.chunks, params.sequences),
                 kThreads, 0, stream>>>(params);
  }
  MeanKernel<<<1, kThreads, 0, stream>>>(params);
  CheckCuda(cudaGetLastError(), "attention cuda gram");
}

}  // namespace headwise::attention_cuda
