// δ of each row from its scores. The ∂L/∂z of a row, with its sink's, add up to
// 0; what they add up to with δ = ⟨dO, O⟩ is what that δ lacks: the entropy's
// part, and what the rounding of O has left in it, which the many terms of a
// table's entry would not forgive. Door: launch.h.
#include "headwise/ops/attention/cuda/device/sink.cuh"
#include "headwise/ops/attention/cuda/launch.h"
#include "headwise/ops/attention/cuda/launch_kernel.cuh"
#include "headwise/ops/attention/cuda/sm80/backward.cuh"

namespace headwise::attention_cuda {
namespace {

using sm80::kRows;
using sm80::kThreads;

// What a sink adds to δ. Of an entropy's gradient g the keys' terms leave out
// −g·A, which sums to −g only where nothing is missing.
__device__ inline float SinkDelta(const ForwardParams& f, int head,
                                  const sm80::RowInputs& rows, int m) {
  if (f.sink_logits == nullptr) return 0;
  const float share = Exp2(f.sink_logits[head] / kLn2 - rows.lse[m]);
  return share * (rows.log_weight[m] / kLn2 - rows.delta[m]);
}

template <class T, int kDim>
__device__ inline void CorrectDelta(const BackwardParams& p, uint8_t* raw) {
  auto& shared = *reinterpret_cast<sm80::BackwardShared<T, kDim>*>(raw);
  const ForwardParams& f = p.forward;
  const Task t = MakeTask(f, blockIdx.x, kRows, kRows);
  if (t.count <= 0) return;
  const int in_tile = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
  float sums[2] = {};
  sm80::VisitKeys<T, kDim>(
      p, t, shared,
      [&](int begin, float(&s)[32], float(&dp)[32]) {
        sm80::QueryScoreGradients<true, false>(f, t, shared.rows, begin,
                                               in_tile, s, dp);
#pragma unroll
        for (int i = 0; i < 32; ++i) sums[(i / 2) % 2] += dp[i];
      },
      CeilDiv(f.head_dim, 16), CeilDiv(f.value_dim, 16));
  const int64_t first =
      (static_cast<int64_t>(t.sequence) * p.heads + t.head) * p.padded_len +
      t.first_query;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int m = in_tile + 8 * r;
    const float sum = QuadSum(sums[r]) + SinkDelta(f, t.head, shared.rows, m);
    if (threadIdx.x % 4 == 0) p.delta[first + m] = shared.rows.delta[m] + sum;
  }
}

// grid: the order's work items.
template <int kDim>
__global__ __launch_bounds__(kThreads) void DeltaKernel(
    const __grid_constant__ BackwardParams p) {
  extern __shared__ __align__(128) uint8_t raw[];
  p.is_half ? CorrectDelta<__half, kDim>(p, raw)
            : CorrectDelta<__nv_bfloat16, kDim>(p, raw);
}

}  // namespace

void LaunchDelta(const BackwardParams& params, cudaStream_t stream) {
  const ForwardParams& f = params.forward;
  if (f.order.count() == 0) return;
  sm80::WithFewColumns(f, [&](auto columns) {
    LaunchKernel(DeltaKernel<columns()>, f.order.count(), kThreads,
                 sizeof(sm80::BackwardShared<__half, columns()>), stream,
                 "attention cuda delta", params);
  });
}

}  // namespace headwise::attention_cuda
