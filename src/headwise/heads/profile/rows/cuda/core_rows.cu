// cuda: a block a head and stretch of a sequence. Each thread adds up its rows
// in f64; the threads' sums, and then the stretches', are added in one order.
// Door: ../core_row.h.
#include <algorithm>

#include "headwise/heads/profile/rows/core_row.h"
#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / cuda::kWarp;
// Rows whose values a thread asks for at once, so that it waits for them once.
constexpr int kAtOnce = 4;
// Rows of a stretch: eight a thread, so that adding the threads up is the
// smaller part.
constexpr int64_t kStretch = int64_t{8} * kThreads;

// to [B, H, stretches, columns]. grid: (H, B, stretches).
__global__ __launch_bounds__(kThreads) void SumsKernel(
    const __grid_constant__ CoreRows rows, double* to) {
  // A row a column; one lane more than there are, for the banks' sake.
  __shared__ double parts[kWarps][kCoreColumns][cuda::kWarp + 1];
  __shared__ double of_warps[kWarps][kCoreColumns];
  const int64_t h = blockIdx.x, b = blockIdx.y, stretch = blockIdx.z;
  const int64_t begin = rows.query_starts[b], end = rows.query_starts[b + 1];
  const int64_t keys = rows.key_starts[b + 1] - rows.key_starts[b];
  // The last one has what is left of a sequence longer than was said.
  const int64_t from = begin + stretch * kStretch;
  const int64_t until =
      stretch + 1 == gridDim.z ? end : min(from + kStretch, end);
  double sums[kCoreColumns] = {};
  for (int64_t t = from + threadIdx.x; t < until; t += kAtOnce * kThreads) {
    CoreValues values[kAtOnce];
#pragma unroll
    for (int n = 0; n < kAtOnce; ++n) {
      const int64_t own = min(t + n * kThreads, until - 1);
      values[n] = CoreValuesAt(rows, h, own);
    }
#pragma unroll
    for (int n = 0; n < kAtOnce; ++n) {
      const int64_t own = t + n * kThreads;
      if (own < until)
        AddCoreRow(rows, values[n], own, own - begin, keys, sums);
    }
  }
  const int lane = threadIdx.x % cuda::kWarp, warp = threadIdx.x / cuda::kWarp;
#pragma unroll
  for (int c = 0; c < kCoreColumns; ++c) parts[warp][c][lane] = sums[c];
  __syncwarp();
  if (lane < kCoreColumns) {
    double sum = 0;
#pragma unroll
    for (int l = 0; l < cuda::kWarp; ++l) sum += parts[warp][lane][l];
    of_warps[warp][lane] = sum;
  }
  __syncthreads();
  if (threadIdx.x >= kCoreColumns) return;
  double sum = 0;
  for (int w = 0; w < kWarps; ++w) sum += of_warps[w][threadIdx.x];
  to[((b * rows.heads + h) * gridDim.z + stretch) * kCoreColumns +
     threadIdx.x] = sum;
}

// from [B · H, stretches, columns] to [B · H, columns]. grid: B · H.
__global__ void AddStretchesKernel(const double* from, int64_t stretches,
                                   double* to) {
  if (threadIdx.x >= kCoreColumns) return;
  const int64_t row = blockIdx.x;
  double sum = 0;
  for (int64_t n = 0; n < stretches; ++n) {
    sum += from[(row * stretches + n) * kCoreColumns + threadIdx.x];
  }
  to[row * kCoreColumns + threadIdx.x] = sum;
}

// A grid has at most 65535 blocks in its second direction.
Reason WhyNot(const CoreRowsCall& call) {
  if (!call.args.entropy.device.is_cuda()) return "runs on CUDA only";
  return call.args.sums.shape[0] <= 65535 ? "" : "at most 65535 sequences";
}

void Run(Context& context, const CoreRowsCall& call) {
  constexpr int64_t kMostStretches = 1024;
  const CoreRows rows = CoreRowsOf(call);
  const int64_t sequences = call.args.sums.shape[0];
  const int64_t longest =
      call.problem.longest > 0 ? call.problem.longest : rows.rows;
  const int64_t stretches =
      std::clamp<int64_t>(cuda::CeilDiv(longest, kStretch), 1, kMostStretches);
  auto* sums = static_cast<double*>(call.args.sums.data);
  Temp memory;
  if (stretches > 1) {
    memory = Temp(context, DType::kF64,
                  {sequences, rows.heads, stretches, kCoreColumns});
  }
  cuda::Launch(
      context, "core rows", SumsKernel,
      dim3(static_cast<unsigned>(rows.heads), static_cast<unsigned>(sequences),
           static_cast<unsigned>(stretches)),
      kThreads, rows, stretches > 1 ? memory.view().Raw<double>() : sums);
  if (stretches == 1) return;
  cuda::Launch(context, "core rows", AddStretchesKernel,
               dim3(static_cast<unsigned>(rows.heads * sequences)), cuda::kWarp,
               memory.view().Raw<double>(), stretches, sums);
}

}  // namespace

const Implementation<CoreRowsCall> kCoreRowsCuda = {
    .name = "cuda", .why_not = WhyNot, .run = Run};

}  // namespace headwise
