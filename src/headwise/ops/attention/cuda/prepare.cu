// The backward pass's first kernel, for both paths: what later kernels need of
// each row, and ∂L/∂g = ⟨dout, O − μ⟩. A warp a row; bound by memory. Door:
// launch.h.
#include "headwise/backend/cuda/backend.h"
#include "headwise/ops/attention/cuda/device/epilogue.cuh"
#include "headwise/ops/attention/cuda/device/task.cuh"
#include "headwise/ops/attention/cuda/launch.h"

namespace headwise::attention_cuda {
namespace {

constexpr float kLog2E = 1.4426950408889634f;

// One kernel for both element types, which are 2 bytes wide.
__device__ inline float ReadElement(const void* row, int i, bool is_half) {
  return is_half
             ? static_cast<float>(static_cast<const __half*>(row)[i])
             : static_cast<float>(static_cast<const __nv_bfloat16*>(row)[i]);
}
__device__ inline void WriteElement(void* row, int i, bool is_half, float v) {
  if (is_half) {
    static_cast<__half*>(row)[i] = __float2half_rn(v);
  } else {
    static_cast<__nv_bfloat16*>(row)[i] = __float2bfloat16_rn(v);
  }
}

// grid: (padded_len / 4, active heads, sequences).
__global__ __launch_bounds__(128) void PrepareKernel(
    const __grid_constant__ BackwardParams p) {
  const ForwardParams& f = p.forward;
  const int query = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  const int head =
      f.active_heads != nullptr ? f.active_heads[blockIdx.y] : blockIdx.y;
  const Extent extent = ExtentOf(f, blockIdx.z);
  const bool inside = query < (f.packed ? extent.query_len : f.query_len);
  const bool counts = query < extent.query_len;
  const int64_t batch = f.packed ? 0 : blockIdx.z;
  const int64_t row = extent.query_start + query;
  const bool gated = f.gates != nullptr;
  float with_o = 0, with_mu = 0, delta = 0, gate = 1;
  if (inside) {
    const void* o = RowsOf<__half>(p.o, false, batch, row, head);
    const void* dout = RowsOf<__half>(p.dout, false, batch, row, head);
    void* d_o = RowsOf<__half>(p.d_o, false, batch, row, head);
    const float* mu = nullptr;
    if (gated) {
      gate =
          f.gates[batch * f.gate_batch + row * f.gate_row + head * f.gate_head];
      if (f.replacement != nullptr) {
        mu = f.replacement + batch * f.replacement_batch +
             row * f.replacement_row + head * f.replacement_head;
      }
    }
    for (int i = lane; counts && i < f.value_dim; i += 32) {
      const float d = ReadElement(dout, i, p.is_half);
      const float value = ReadElement(o, i, p.is_half);
      with_o += d * value;
      if (mu != nullptr) with_mu += d * mu[i];
      // δ from dO as the other kernels will read it, rounded: where a row sees
      // one key, dP − δ must vanish.
      if (gated) WriteElement(d_o, i, p.is_half, gate * d);
      delta += (gated ? ReadElement(d_o, i, p.is_half) : d) * value;
    }
  }
  with_o = WarpSum(with_o);
  with_mu = WarpSum(with_mu);
  delta = WarpSum(delta);
  if (lane != 0) return;
  float lse = -INFINITY;
  if (counts) {
    lse = static_cast<const float*>(
        f.lse.data)[batch * f.lse.batch + head * f.lse.head + row];
  }
  const int64_t at =
      (static_cast<int64_t>(blockIdx.z) * p.heads + head) * p.padded_len +
      query;
  p.lse_log2[at] = lse == -INFINITY ? INFINITY : lse * kLog2E;
  p.delta[at] = delta;
  if (p.log_weight != nullptr) {
    const bool given = counts && p.dentropy.data != nullptr;
    p.log_weight[at] = given ? kLn2 * *p.dentropy.At(batch, head, row) : 0;
  }
  if (p.dgates != nullptr && inside) {
    p.dgates[batch * p.dgate_batch + row * p.dgate_row + head * p.dgate_head] =
        with_o - with_mu;
  }
}

}  // namespace

void LaunchPrepare(const BackwardParams& params, cudaStream_t stream) {
  const int heads = params.forward.order.heads;
  if (params.padded_len == 0 || heads == 0) return;
  const dim3 grid(params.padded_len / 4, heads, params.sequences);
  PrepareKernel<<<grid, 128, 0, stream>>>(params);
  CheckCuda(cudaGetLastError(), "attention cuda");
}

}  // namespace headwise::attention_cuda
