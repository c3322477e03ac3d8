// The backward pass's first kernel, for both paths: what later kernels need of
// each row, and ∂L/∂g = ⟨dout, O − μ⟩. Bound by memory. Door:
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

// Sums over one row's dO, O and μ; in one lane of it, of its share.
struct Products {
  float with_o = 0, with_mu = 0, delta = 0;
};

// kCount elements from i on; d_o, where it is given, gets gate · dout.
template <int kCount>
__device__ inline void AddProducts(const void* dout, const void* o, void* d_o,
                                   const float* mu, float gate, bool is_half,
                                   int i, Products& sums) {
  // 2 bytes each; a pack is loaded at once.
  struct alignas(2 * kCount) Numbers {
    uint16_t at[kCount];
  };
  const int at = i / kCount;
  const Numbers d = static_cast<const Numbers*>(dout)[at];
  const Numbers value = static_cast<const Numbers*>(o)[at];
  Numbers scaled;
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    const float slope = ReadElement(&d.at[j], 0, is_half);
    const float out = ReadElement(&value.at[j], 0, is_half);
    sums.with_o += slope * out;
    if (mu != nullptr) sums.with_mu += slope * mu[i + j];
    float inner = slope;
    // δ from dO as the other kernels will read it, rounded: where a row sees
    // one key, dP − δ must vanish.
    if (d_o != nullptr) {
      WriteElement(&scaled.at[j], 0, is_half, gate * slope);
      inner = ReadElement(&scaled.at[j], 0, is_half);
    }
    sums.delta += inner * out;
  }
  if (d_o != nullptr) static_cast<Numbers*>(d_o)[at] = scaled;
}

template <int kLanes>
__device__ inline float GroupSum(float x) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) {
    x += __shfl_xor_sync(0xffffffff, x, step);
  }
  return x;
}

constexpr int kThreads = 128;

// kLanes lanes a row, which load kCount elements at once.
// grid: (padded_len / rows of a block, active heads, sequences).
template <int kLanes, int kCount>
__global__ __launch_bounds__(kThreads) void PrepareKernel(
    const __grid_constant__ BackwardParams p) {
  const ForwardParams& f = p.forward;
  const int query = blockIdx.x * (kThreads / kLanes) + threadIdx.x / kLanes;
  const int lane = threadIdx.x % kLanes;
  const int head =
      f.active_heads != nullptr ? f.active_heads[blockIdx.y] : blockIdx.y;
  const Extent extent = ExtentOf(f, blockIdx.z);
  const bool inside = query < (f.packed ? extent.query_len : f.query_len);
  const bool counts = query < extent.query_len;
  const int64_t batch = f.packed ? 0 : blockIdx.z;
  const int64_t row = extent.query_start + query;
  Products sums;
  if (inside && counts) {
    const void* o = RowsOf<__half>(p.o, false, batch, row, head);
    const void* dout = RowsOf<__half>(p.dout, false, batch, row, head);
    void* d_o = nullptr;
    const float* mu = nullptr;
    float gate = 1;
    if (f.gates != nullptr) {
      d_o = RowsOf<__half>(p.d_o, false, batch, row, head);
      gate =
          f.gates[batch * f.gate_batch + row * f.gate_row + head * f.gate_head];
    }
    if (f.replacement != nullptr) {
      mu = f.replacement + batch * f.replacement_batch +
           row * f.replacement_row + head * f.replacement_head;
    }
    for (int i = lane * kCount; i < f.value_dim; i += kLanes * kCount) {
      AddProducts<kCount>(dout, o, d_o, mu, gate, p.is_half, i, sums);
    }
  }
  const float with_o = GroupSum<kLanes>(sums.with_o);
  const float with_mu = GroupSum<kLanes>(sums.with_mu);
  const float delta = GroupSum<kLanes>(sums.delta);
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

// Whether rows can be loaded 16 bytes at a time.
bool InPacks(const BackwardParams& p) {
  const auto fits = [](const Strided& view) {
    return reinterpret_cast<uintptr_t>(view.data) % 16 == 0 &&
           view.batch % 8 == 0 && view.row % 8 == 0 && view.head % 8 == 0;
  };
  return p.forward.value_dim % 8 == 0 && fits(p.o) && fits(p.dout) &&
         (p.forward.gates == nullptr || fits(p.d_o));
}

template <int kLanes, int kCount>
void Launch(const BackwardParams& params, cudaStream_t stream) {
  constexpr int kRows = kThreads / kLanes;
  static_assert(kRowPadding % kRows == 0);
  const dim3 grid(params.padded_len / kRows, params.forward.order.heads,
                  params.sequences);
  PrepareKernel<kLanes, kCount><<<grid, kThreads, 0, stream>>>(params);
}

}  // namespace

void LaunchPrepare(const BackwardParams& params, cudaStream_t stream) {
  if (params.padded_len == 0 || params.forward.order.heads == 0) return;
  if (!InPacks(params)) {
    Launch<32, 1>(params, stream);
  } else if (params.forward.value_dim <= 64) {
    Launch<8, 8>(params, stream);
  } else {
    Launch<16, 8>(params, stream);
  }
  CheckCuda(cudaGetLastError(), "attention cuda");
}

}  // namespace headwise::attention_cuda
