// Decoding's second kernel: adds up the runs of keys that decode.cu left, and
// finishes the rows. Door: launch.h.
#include "headwise/backend/cuda/device.h"
#include "headwise/ops/attention/cuda/device/epilogue.cuh"
#include "headwise/ops/attention/cuda/device/run.cuh"
#include "headwise/ops/attention/cuda/device/task.cuh"
#include "headwise/ops/attention/cuda/launch.h"

namespace headwise::attention_cuda {
namespace {

constexpr int kColumns = kDecodeColumns;

__device__ inline RowPartial Shuffled(const RowPartial& row, int lane) {
  RowPartial other;
  other.reference = __shfl_xor_sync(~0u, row.reference, lane);
  other.sum = __shfl_xor_sync(~0u, row.sum, lane);
  other.entropy = __shfl_xor_sync(~0u, row.entropy, lane);
  other.distance = __shfl_xor_sync(~0u, row.distance, lane);
  other.best = __shfl_xor_sync(~0u, row.best, lane);
  other.place = __shfl_xor_sync(~0u, row.place, lane);
  return other;
}

template <class T>
__device__ inline void StoreColumns(const Strided& view, const RowPlace& at,
                                    int column, float4 v) {
  T* to = RowsOf<T>(view, false, at.sequence, at.row, at.head) + column;
  *reinterpret_cast<uint2*>(to) =
      make_uint2(Pack<T>(v.x, v.y), Pack<T>(v.z, v.w));
}

// A lane's four columns through the gate.
template <class T>
__device__ inline void StoreDecoded(const ForwardParams& f, const RowPlace& at,
                                    float4 o, float inverse) {
  const int column = 4 * (threadIdx.x % 32);
  if (column >= f.value_dim) return;
  const bool dead = inverse == 0;  // a row that sees nothing has no output
  o = dead ? make_float4(0, 0, 0, 0)
           : make_float4(o.x * inverse, o.y * inverse, o.z * inverse,
                         o.w * inverse);
  if (f.ungated.data != nullptr) StoreColumns<T>(f.ungated, at, column, o);
  if (f.gates != nullptr && at.counts) {
    const int64_t s = at.sequence, m = at.row, h = at.head;
    const float gate =
        f.gates[s * f.gate_batch + m * f.gate_row + h * f.gate_head];
    float4 mu = make_float4(0, 0, 0, 0);
    if (f.replacement != nullptr) {
      const float* from = f.replacement + s * f.replacement_batch +
                          m * f.replacement_row + h * f.replacement_head +
                          column;
      mu = make_float4(from[0], from[1], from[2], from[3]);
    }
    const auto mix = [&](float x, float y) {
      return (gate != 0 ? gate * x : 0) + (1 - gate) * y;
    };
    o = make_float4(mix(o.x, mu.x), mix(o.y, mu.y), mix(o.z, mu.z),
                    mix(o.w, mu.w));
  }
  StoreColumns<T>(f.out, at, column, o);
}

// All runs of a row whose first part is `first`; every warp gets the same.
__device__ inline RowPartial MergeRuns(const DecodeParams& p, int64_t first) {
  RowPartial row{kNoReference, 0, 0, 0, 0, 0};
  for (int s = threadIdx.x % 32; s < p.plan.splits; s += 32) {
    row = Merged(row, p.parts[first + s * kDecodeRows]);
  }
  for (int step = 1; step < 32; step *= 2) {
    row = Merged(row, Shuffled(row, step));
  }
  return row;
}

// A lane's four columns of the runs that its warp takes, every fourth, in units
// of 2^reference. Runs that saw nothing left nothing.
__device__ inline float4 AddRuns(const DecodeParams& p, int64_t first,
                                 float reference) {
  const int lane = threadIdx.x % 32;
  float4 o = make_float4(0, 0, 0, 0);
  // Several reads at once: each takes longer than all that is done here.
#pragma unroll 8
  for (int s = threadIdx.x / 32; s < p.plan.splits; s += 4) {
    const int64_t part = first + s * kDecodeRows;
    const float sum = p.parts[part].sum;
    const float alpha = Exp2(p.parts[part].reference - reference);
    const float4 v =
        reinterpret_cast<const float4*>(p.outputs + part * kColumns)[lane];
    o.x = sum != 0 ? fmaf(alpha, v.x, o.x) : o.x;
    o.y = sum != 0 ? fmaf(alpha, v.y, o.y) : o.y;
    o.z = sum != 0 ? fmaf(alpha, v.z, o.z) : o.z;
    o.w = sum != 0 ? fmaf(alpha, v.w, o.w) : o.w;
  }
  return o;
}

// A block a row: grid (queries of the views, heads, sequences).
__global__ __launch_bounds__(128) void CombineKernel(
    const __grid_constant__ DecodeParams p) {
  __shared__ float4 shared[4][32];
  const ForwardParams& f = p.forward;
  const int query = blockIdx.x, head = blockIdx.y;
  const Extent extent = ExtentOf(f, blockIdx.z);
  const int rows_len = f.packed ? extent.query_len : f.query_len;
  if (query >= rows_len) return;
  if (p.is_active != nullptr && !p.is_active[head]) return;
  const RowPlace at{f.packed ? 0 : static_cast<int>(blockIdx.z),
                    head,
                    query,
                    extent.query_start + query,
                    true,
                    query < extent.query_len};
  WaitForLaunchBefore();
  RowPartial row{kNoReference, 0, 0, 0, 0, 0};
  float4 o = make_float4(0, 0, 0, 0);
  if (at.counts) {
    const int kv_head = head / f.queries_per_kv;
    const int index = query * f.queries_per_kv + head % f.queries_per_kv;
    const int64_t unit =
        (static_cast<int64_t>(blockIdx.z) * p.kv_heads + kv_head) *
            p.row_blocks +
        index / kDecodeRows;
    const int64_t first =
        unit * p.plan.splits * kDecodeRows + index % kDecodeRows;
    row = MergeRuns(p, first);
    o = AddRuns(p, first, row.reference);
  }
  shared[threadIdx.x / 32][threadIdx.x % 32] = o;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  for (int w = 1; w < 4; ++w) {
    const float4 v = shared[w][threadIdx.x];
    o = make_float4(o.x + v.x, o.y + v.y, o.z + v.z, o.w + v.w);
  }
  if (threadIdx.x == 0) WriteStatistics<true>(f, row, at);
  const float inverse = row.sum != 0 ? 1 / row.sum : 0;
  p.is_half ? StoreDecoded<__half>(f, at, o, inverse)
            : StoreDecoded<__nv_bfloat16>(f, at, o, inverse);
}

}  // namespace

void LaunchCombine(const DecodeParams& params, cudaStream_t stream) {
  const ForwardParams& f = params.forward;
  const int heads = params.kv_heads * f.queries_per_kv;
  // Hopper starts the second kernel under the end of the first.
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(f.query_len, heads, f.order.sequences);
  config.blockDim = 128;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = CurrentChip()->major >= 9 ? 1 : 0;
  CheckCuda(cudaLaunchKernelEx(&config, CombineKernel, params),
            "attention cuda decode");
}

}  // namespace headwise::attention_cuda
