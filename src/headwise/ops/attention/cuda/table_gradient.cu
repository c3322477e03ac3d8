// The gradient of a relative table: of each distance the sum of ∂L/∂z over the
// pairs that stand so far apart. A block takes a part of one head's query
// blocks, brings each tile's ∂L/∂z to shared memory, adds up diagonals, a
// thread each, and adds them to a table of its own; a second kernel adds the
// tables in one order. No atomics, so that results repeat. Door: launch.h.
#include "headwise/ops/attention/cuda/launch.h"
#include "headwise/ops/attention/cuda/launch_kernel.cuh"
#include "headwise/ops/attention/cuda/sm80/backward.cuh"

namespace headwise::attention_cuda {
namespace {

using sm80::kRows;
using sm80::kThreads;

constexpr int kDiagonals = 2 * kRows - 1;
static_assert(kDiagonals <= kThreads);

template <class T, int kDim>
struct TableShared {
  sm80::BackwardShared<T, kDim> tiles;
  float dz[kRows][kRows + 1];  // odd: diagonals meet no bank twice
  float ends[2][kThreads / 32];
};

// What all threads add to. Entries between the ends have one thread a tile;
// many diagonals share an end, so that each thread keeps its own part of it.
struct TableSums {
  float* entries;  // [2·reach + 1]
  int reach;
  float low = 0, high = 0;  // distances up to −reach, and from reach on

  __device__ void Add(int distance, float sum) {
    if (distance <= -reach) {
      low += sum;
    } else if (distance >= reach) {
      high += sum;
    } else {
      entries[distance + reach] += sum;
    }
  }
};

// Adds a tile of ∂L/∂z whose row 0 and column 0 are `distance` apart, key minus
// query. The caller synchronises before dz or the entries are touched again.
__device__ inline void AddTile(const float (&values)[32], int distance,
                               float (&dz)[kRows][kRows + 1], TableSums& sums) {
  const bool all_low = distance + kRows - 1 <= -sums.reach;
  const bool all_high = distance - (kRows - 1) >= sums.reach;
  if (all_low || all_high) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 32; ++i) sum += values[i];
    sums.Add(distance, sum);
    return;
  }
  const int in_tile = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    const int column = 8 * (i / 4) + 2 * (threadIdx.x % 4) + i % 2;
    dz[in_tile + 8 * ((i / 2) % 2)][column] = values[i];
  }
  __syncthreads();
  if (threadIdx.x >= kDiagonals) return;
  const int shift = static_cast<int>(threadIdx.x) - (kRows - 1);
  const DiagonalRows rows = RowsOfDiagonal(threadIdx.x, kRows);
  float sum = 0;
  for (int m = rows.first; m <= rows.last; ++m) sum += dz[m][m + shift];
  sums.Add(distance + shift, sum);
}

template <class T, int kDim>
__device__ inline void SumDistances(const BackwardParams& p, uint8_t* raw) {
  auto& shared = *reinterpret_cast<TableShared<T, kDim>*>(raw);
  const ForwardParams& f = p.forward;
  const int part = blockIdx.x, head_index = blockIdx.y;
  const int width = 2 * f.shape.reach + 1;
  const int in_tile = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
  TableSums sums;
  sums.reach = f.shape.reach;
  sums.entries =
      p.tables +
      (static_cast<int64_t>(head_index) * p.table_parts + part) * width;
  for (int i = threadIdx.x; i < width; i += kThreads) sums.entries[i] = 0;
  const int blocks = f.order.blocks, items = blocks * f.order.sequences;
  for (int item = part; item < items; item += p.table_parts) {
    const Task t =
        TaskOf(f, {item % blocks, head_index, item / blocks}, kRows, kRows);
    if (t.count <= 0) continue;
    __syncthreads();
    sm80::VisitKeys<T, kDim>(
        p, t, shared.tiles,
        [&](int begin, float(&s)[32], float(&dp)[32]) {
          sm80::QueryScoreGradients<true, false>(f, t, shared.tiles.rows, begin,
                                                 in_tile, s, dp);
          AddTile(dp, begin - (t.first_query + t.extent.offset), shared.dz,
                  sums);
        },
        CeilDiv(f.head_dim, 16), CeilDiv(f.value_dim, 16));
  }
  const float low = WarpSum(sums.low), high = WarpSum(sums.high);
  if (threadIdx.x % 32 == 0) {
    shared.ends[0][threadIdx.x / 32] = low;
    shared.ends[1][threadIdx.x / 32] = high;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  // Without a reach both ends are the same entry.
  for (int warp = 0; warp < kThreads / 32; ++warp) {
    sums.entries[0] += shared.ends[0][warp];
    sums.entries[width - 1] += shared.ends[1][warp];
  }
}

// grid: (table_parts, heads of the order).
template <int kDim>
__global__ __launch_bounds__(kThreads) void DistancesKernel(
    const __grid_constant__ BackwardParams p) {
  extern __shared__ __align__(128) uint8_t raw[];
  p.is_half ? SumDistances<__half, kDim>(p, raw)
            : SumDistances<__nv_bfloat16, kDim>(p, raw);
}

// grid: (⌈width / 128⌉, heads of the order).
__global__ __launch_bounds__(kThreads) void TablesKernel(
    const __grid_constant__ BackwardParams p) {
  const ForwardParams& f = p.forward;
  const int width = 2 * f.shape.reach + 1;
  const int entry = blockIdx.x * kThreads + threadIdx.x;
  if (entry >= width) return;
  const int head =
      f.active_heads != nullptr ? f.active_heads[blockIdx.y] : blockIdx.y;
  const float* from =
      p.tables + static_cast<int64_t>(blockIdx.y) * p.table_parts * width;
  float sum = 0;
  for (int part = 0; part < p.table_parts; ++part) {
    sum += from[static_cast<int64_t>(part) * width + entry];
  }
  p.dtable[head * p.dtable_head + entry] += sum;
}

}  // namespace

void LaunchTableGradient(const BackwardParams& params, cudaStream_t stream) {
  const ForwardParams& f = params.forward;
  if (f.order.count() == 0) return;
  sm80::WithFewColumns(f, [&](auto columns) {
    LaunchKernel(DistancesKernel<columns()>,
                 dim3(params.table_parts, f.order.heads), kThreads,
                 sizeof(TableShared<__half, columns()>), stream,
                 "attention cuda table gradient", params);
  });
  const dim3 grid(CeilDiv(2 * f.shape.reach + 1, kThreads), f.order.heads);
  TablesKernel<<<grid, kThreads, 0, stream>>>(params);
  CheckCuda(cudaGetLastError(), "attention cuda table gradient");
}

}  // namespace headwise::attention_cuda
