// cuda: a block a head and stretch of a sequence. Each thread adds up its rows
// in f64; the threads' sums, and then the stretches', are added in one order.
// Door: ../implementation.h.
#include <algorithm>

#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/ops/head_core/implementation.h"
#include "headwise/ops/head_core/row.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / cuda::kWarp;

__device__ double WarpSum(double x) {
  for (int step = cuda::kWarp / 2; step > 0; step /= 2) {
    x += __shfl_xor_sync(0xffffffff, x, step);
  }
  return x;
}

// Rows of a stretch: four a thread, so that adding the threads up is the
// smaller part.
constexpr int64_t kStretch = int64_t{4} * kThreads;

// to [B, H, stretches, columns]. grid: (H, B, stretches).
__global__ __launch_bounds__(kThreads) void SumsKernel(CoreRows rows,
                                                       double* to) {
  __shared__ double parts[kWarps][kCoreColumns];
  const int64_t h = blockIdx.x, b = blockIdx.y, stretch = blockIdx.z;
  const int64_t begin = rows.query_starts[b], end = rows.query_starts[b + 1];
  const int64_t keys = rows.key_starts[b + 1] - rows.key_starts[b];
  // The last one has what is left of a sequence longer than was said.
  const int64_t from = begin + stretch * kStretch;
  const int64_t until =
      stretch + 1 == gridDim.z ? end : min(from + kStretch, end);
  double sums[kCoreColumns] = {};
  for (int64_t t = from + threadIdx.x; t < until; t += kThreads) {
    AddCoreRow(rows, h, t, t - begin, keys, sums);
  }
  const int lane = threadIdx.x % cuda::kWarp, warp = threadIdx.x / cuda::kWarp;
#pragma unroll
  for (int c = 0; c < kCoreColumns; ++c) {
    const double sum = WarpSum(sums[c]);
    if (lane == 0) parts[warp][c] = sum;
  }
  __syncthreads();
  if (threadIdx.x >= kCoreColumns) return;
  double sum = 0;
  for (int w = 0; w < kWarps; ++w) sum += parts[w][threadIdx.x];
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
Reason WhyNot(const HeadCoreCall& call) {
  if (!call.args.entropy.device.is_cuda()) return "runs on CUDA only";
  return call.args.sums.shape[0] <= 65535 ? "" : "at most 65535 sequences";
}

void Run(Context& context, const HeadCoreCall& call) {
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
      context, "head core", SumsKernel,
      dim3(static_cast<unsigned>(rows.heads), static_cast<unsigned>(sequences),
           static_cast<unsigned>(stretches)),
      kThreads, rows, stretches > 1 ? memory.view().Raw<double>() : sums);
  if (stretches == 1) return;
  cuda::Launch(context, "head core", AddStretchesKernel,
               dim3(static_cast<unsigned>(rows.heads * sequences)), cuda::kWarp,
               memory.view().Raw<double>(), stretches, sums);
}

}  // namespace

const Implementation<HeadCoreCall> kHeadCoreCuda = {
    .name = "cuda", .why_not = WhyNot, .run = Run};

}  // namespace headwise
