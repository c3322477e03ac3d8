// cuda: a block a head and sequence. Each thread adds up its rows in f64; the
// threads' sums are added in one order. Door: ../implementation.h.
#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/ops/head_core/implementation.h"
#include "headwise/ops/head_core/row.h"

namespace headwise {
namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / cuda::kWarp;

__device__ double WarpSum(double x) {
  for (int step = cuda::kWarp / 2; step > 0; step /= 2) {
    x += __shfl_xor_sync(0xffffffff, x, step);
  }
  return x;
}

// grid: (H, B).
__global__ __launch_bounds__(kThreads) void SumsKernel(CoreRows rows,
                                                       double* to) {
  __shared__ double parts[kWarps][kCoreColumns];
  const int64_t h = blockIdx.x, b = blockIdx.y;
  const int64_t begin = rows.query_starts[b], end = rows.query_starts[b + 1];
  const int64_t keys = rows.key_starts[b + 1] - rows.key_starts[b];
  double sums[kCoreColumns] = {};
  for (int64_t t = begin + threadIdx.x; t < end; t += kThreads) {
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
  to[(b * rows.heads + h) * kCoreColumns + threadIdx.x] = sum;
}

// A grid has at most 65535 blocks in its second direction.
Reason WhyNot(const HeadCoreCall& call) {
  if (!call.args.entropy.device.is_cuda()) return "runs on CUDA only";
  return call.args.sums.shape[0] <= 65535 ? "" : "at most 65535 sequences";
}

void Run(Context& context, const HeadCoreCall& call) {
  const CoreRows rows = CoreRowsOf(call);
  cuda::Launch(context, "head core", SumsKernel,
               dim3(static_cast<unsigned>(rows.heads),
                    static_cast<unsigned>(call.args.sums.shape[0])),
               kThreads, rows, static_cast<double*>(call.args.sums.data));
}

}  // namespace

const Implementation<HeadCoreCall> kHeadCoreCuda = {
    .name = "cuda", .why_not = WhyNot, .run = Run};

}  // namespace headwise
