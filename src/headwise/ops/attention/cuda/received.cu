// Received attention: column sums of A over queries, Σ_i w_i A_ij. A block
// holds 64 keys of one head and walks the queries that see them, so that every
// sum has one owner and one order. Door: launch.h.
#include "headwise/ops/attention/cuda/device/epilogue.cuh"
#include "headwise/ops/attention/cuda/device/score.cuh"
#include "headwise/ops/attention/cuda/device/task.cuh"
#include "headwise/ops/attention/cuda/launch.h"
#include "headwise/ops/attention/cuda/launch_kernel.cuh"
#include "headwise/ops/attention/cuda/sm80/tile.cuh"

namespace headwise::attention_cuda {
namespace {

using sm80::kRows;
using sm80::kThreads;

template <class T, int kDim>
struct ReceivedShared {
  sm80::Tile<T, kDim> k, q;
  float lse[kRows], weight[kRows];  // weight 0: the row adds nothing
};

// LSE, in base 2, and weight of the queries of a tile.
__device__ inline void LoadQueryInputs(const ReceivedParams& p,
                                       const Extent& extent, int64_t batch,
                                       int head, int first, float (&lse)[kRows],
                                       float (&weight)[kRows]) {
  const ForwardParams& f = p.forward;
  for (int i = threadIdx.x; i < kRows; i += kThreads) {
    const int64_t row = extent.query_start + first + i;
    lse[i] = weight[i] = 0;
    if (first + i >= extent.query_len) continue;
    const float found = static_cast<const float*>(
        f.lse.data)[batch * f.lse.batch + head * f.lse.head + row];
    if (!isfinite(found)) continue;
    lse[i] = found / kLn2;
    weight[i] = p.weights.data != nullptr ? *p.weights.At(batch, row, 0) : 1;
  }
}

template <class T, int kDim>
__device__ inline void SumColumns(const ReceivedParams& p, uint8_t* raw) {
  auto& shared = *reinterpret_cast<ReceivedShared<T, kDim>*>(raw);
  const ForwardParams& f = p.forward;
  const int begin = blockIdx.x * kRows, sequence = blockIdx.z;
  const int head =
      f.active_heads != nullptr ? f.active_heads[blockIdx.y] : blockIdx.y;
  const Extent extent = ExtentOf(f, sequence);
  const int64_t batch = f.packed ? 0 : sequence;
  const int rows_left =
      (f.packed ? p.forward.key_starts[sequence + 1] - extent.key_start
                : f.key_len) -
      begin;
  if (rows_left <= 0) return;
  const int row = threadIdx.x / 32 * 16;
  const int j0 = begin + row + threadIdx.x % 32 / 4;
  sm80::LoadTile(shared.k,
                 RowsOf<T>(f.k, false, batch, extent.key_start + begin,
                           head / f.queries_per_kv),
                 f.k.row, extent.key_len - begin, f.head_dim);
  const int last = Min(extent.key_len, begin + kRows) - 1;
  const int2 blocks = QueryBlocks(f.band, extent, begin, last, kRows);
  float sums[2] = {};
  for (int block = blocks.x; block < blocks.y; ++block) {
    const int first = block * kRows;
    __syncthreads();
    sm80::LoadTile(
        shared.q,
        RowsOf<T>(f.q, false, batch, extent.query_start + first, head), f.q.row,
        extent.query_len - first, f.head_dim);
    CopyCommit();
    LoadQueryInputs(p, extent, batch, head, first, shared.lse, shared.weight);
    CopyWait<0>();
    __syncthreads();
    float s[32] = {};
    sm80::RowProduct<T, kDim>(s, shared.k, row, shared.q,
                              CeilDiv(f.head_dim, 16));
    WithShape(f, [&]<bool kShaped>(std::bool_constant<kShaped>) {
#pragma unroll
      for (int i = 0; i < 32; ++i) {
        const int m = 8 * (i / 4) + 2 * (threadIdx.x % 4) + i % 2;
        const int key = j0 + 8 * ((i / 2) % 2);
        const int position = first + m + extent.offset;
        const bool seen = shared.weight[m] != 0 &&
                          Sees(f.band, position, key, extent.key_len);
        const float a =
            ProbabilityOf<kShaped>(f, head, s[i], position - key, shared.lse[m])
                .z;
        sums[(i / 2) % 2] += seen ? shared.weight[m] * a : 0;
      }
    });
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float sum = QuadSum(sums[r]);
    if (threadIdx.x % 4 != 0 || j0 + 8 * r >= begin + rows_left) continue;
    *p.received.At(batch, head, extent.key_start + j0 + 8 * r) = sum;
  }
}

// grid: (⌈N / 64⌉, active heads, sequences).
template <int kDim>
__global__ __launch_bounds__(kThreads) void ReceivedKernel(
    const __grid_constant__ ReceivedParams p) {
  extern __shared__ __align__(128) uint8_t raw[];
  p.is_half ? SumColumns<__half, kDim>(p, raw)
            : SumColumns<__nv_bfloat16, kDim>(p, raw);
}

template <int kDim>
void Launch(const ReceivedParams& params, dim3 grid, cudaStream_t stream) {
  LaunchKernel(ReceivedKernel<kDim>, grid, kThreads,
               sizeof(ReceivedShared<__half, kDim>), stream,
               "attention cuda received", params);
}

}  // namespace

void LaunchReceived(const ReceivedParams& params, cudaStream_t stream) {
  const ForwardParams& f = params.forward;
  if (f.key_len == 0 || f.order.heads == 0 || f.order.sequences == 0) return;
  const dim3 grid(CeilDiv(f.key_len, kRows), f.order.heads, f.order.sequences);
  if (f.head_dim <= 128) {
    Launch<128>(params, grid, stream);
  } else {
    Launch<256>(params, grid, stream);
  }
}

}  // namespace headwise::attention_cuda
