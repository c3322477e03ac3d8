// The gradient of sink logits. The ∂L/∂z of a row's keys and of its sink add up
// to 0, and no loss reads what the sink took: ∂L/∂s is −share · δ, summed over
// the head's rows in double and in one order, so that results repeat. Door:
// launch.h.
#include "headwise/backend/cuda/backend.h"
#include "headwise/ops/attention/cuda/device/sink.cuh"
#include "headwise/ops/attention/cuda/launch.h"

namespace headwise::attention_cuda {
namespace {

constexpr int kThreads = 1024;

// ∂L/∂s of one row that counts. An entropy's gradient g has its part in δ:
// with H = −Σ A·ln A that is g·(H + share) as the keys' kernels want it, which
// leave out the −1 in ∂H/∂A = −(ln A + 1); a sink does not.
__device__ inline double RowTerm(const SinkGradientParams& p, int sequence,
                                 int head, int query, int64_t batch,
                                 int64_t row) {
  const ForwardParams& f = p.forward;
  const float lse = static_cast<const float*>(
      f.lse.data)[batch * f.lse.batch + head * f.lse.head + row];
  const float share = SinkShare(f, head, lse);
  if (share == 0) return 0;
  const int64_t at =
      (static_cast<int64_t>(sequence) * p.heads + head) * p.row_len + query;
  float delta = p.delta[at];
  if (p.dentropy.data != nullptr) {
    const float slope = *p.dentropy.At(batch, head, row);
    delta += slope * ((p.entropy != nullptr ? p.entropy[at] : 0) - 1);
  }
  return -static_cast<double>(share) * delta;
}

// grid: heads of the order.
__global__ __launch_bounds__(kThreads) void SinkGradientKernel(
    const __grid_constant__ SinkGradientParams p) {
  __shared__ double shared[kThreads];
  const ForwardParams& f = p.forward;
  const int head =
      f.active_heads != nullptr ? f.active_heads[blockIdx.x] : blockIdx.x;
  double sum = 0;
  for (int sequence = 0; sequence < f.order.sequences; ++sequence) {
    const Extent extent = ExtentOf(f, sequence);
    const int64_t batch = f.packed ? 0 : sequence;
    for (int query = threadIdx.x; query < extent.query_len; query += kThreads) {
      sum += RowTerm(p, sequence, head, query, batch,
                     static_cast<int64_t>(extent.query_start) + query);
    }
  }
  shared[threadIdx.x] = sum;
  __syncthreads();
  for (int step = kThreads / 2; step > 0; step /= 2) {
    if (threadIdx.x < step) shared[threadIdx.x] += shared[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) p.dsink_logits[head] += static_cast<float>(shared[0]);
}

}  // namespace

void LaunchSinkGradient(const SinkGradientParams& params, cudaStream_t stream) {
  const WorkOrder& order = params.forward.order;
  if (params.forward.sink_logits == nullptr || order.heads == 0) return;
  SinkGradientKernel<<<order.heads, kThreads, 0, stream>>>(params);
  CheckCuda(cudaGetLastError(), "attention cuda sink gradient");
}

}  // namespace headwise::attention_cuda
