// cuda: gates in use and spans, a thread a number; sums over a head's numbers
// by a block of its own. Door: ../implementation.h.
#include <variant>

#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/ops/cuda/strided.cuh"
#include "headwise/ops/gate/cuda/sequences.cuh"
#include "headwise/ops/gate/cuda/steps.h"

namespace headwise {
namespace {

constexpr int kThreads = 256;

__global__ void SequenceGateKernel(const int32_t* starts, int64_t sequences,
                                   const float* factors, const float* x,
                                   int64_t heads, int64_t count, float* y) {
  const int64_t i = cuda::ThreadIndex<int64_t>();
  if (i >= count) return;
  const int64_t token = i / heads, head = i % heads;
  const float factor =
      factors[SequenceOf(starts, sequences, token) * heads + head];
  y[i] = x == nullptr ? factor : factor * x[i];
}

// A view of gates [B, M, H] and, of its numbers, [B, M, H, E].
struct ComposeParams {
  int64_t tokens = 1, heads = 1, dim = 1;  // M, H, E
  const float* own = nullptr;
  const float* outer = nullptr;
  int64_t outer_stride[3] = {};
  const float* replacement = nullptr;
  int64_t replacement_stride[4] = {};

  __device__ float Outer(int64_t i) const {
    const int64_t head = i % heads, token = i / heads % tokens;
    return outer[i / heads / tokens * outer_stride[0] +
                 token * outer_stride[1] + head * outer_stride[2]];
  }
  __device__ float Replacement(int64_t i, int64_t e) const {
    const int64_t head = i % heads, token = i / heads % tokens;
    return replacement[i / heads / tokens * replacement_stride[0] +
                       token * replacement_stride[1] +
                       head * replacement_stride[2] +
                       e * replacement_stride[3]];
  }
};

__global__ void ProductKernel(ComposeParams p, int64_t count, float* product) {
  const int64_t i = cuda::ThreadIndex<int64_t>();
  if (i < count) product[i] = __fmul_rn(p.Outer(i), p.own[i]);
}

__global__ void ShareKernel(ComposeParams p, int64_t count, float* share) {
  const int64_t n = cuda::ThreadIndex<int64_t>();
  if (n >= count) return;
  const int64_t i = n / p.dim;
  const float f = p.Outer(i);
  const float product = __fmul_rn(f, p.own[i]);
  const float part =
      product == 1 ? 0.0f : __fsub_rn(1, f) / __fsub_rn(1, product);
  share[n] = part * p.Replacement(i, n % p.dim);
}

// A block a head.
__global__ void ActiveKernel(const float* gates, int64_t tokens, int64_t heads,
                             int32_t* active) {
  const int64_t head = blockIdx.x;
  int found = 0;
  for (int64_t begin = 0; begin < tokens && found == 0; begin += kThreads) {
    const int64_t token = begin + threadIdx.x;
    found =
        __syncthreads_or(token < tokens && gates[token * heads + head] != 0);
  }
  if (threadIdx.x == 0) active[head] = found != 0 ? 1 : 0;
}

struct Spans {
  double ramp = 1, limit = 0;
  int64_t reach = 0;
  const float* spans = nullptr;

  // What is left of the ramp at place i of a head's row.
  __device__ double Left(int64_t head, int64_t i) const {
    const double z = limit * fminf(fmaxf(spans[head], 0.0f), 1.0f);
    const int64_t distance = i < reach ? reach - i : i - reach;
    return ramp + z - static_cast<double>(distance);
  }
};

__global__ void SpanKernel(Spans p, int64_t count, float* table) {
  const int64_t n = cuda::ThreadIndex<int64_t>();
  if (n >= count) return;
  const int64_t width = 2 * p.reach + 1;
  const double m = p.Left(n / width, n % width) / p.ramp;
  table[n] = m > 0 ? static_cast<float>(log(fmin(m, 1.0))) : -INFINITY;
}

// A block a head.
__global__ void SpanBackwardKernel(Spans p, const float* dtable, float penalty,
                                   float* dspans) {
  const int64_t head = blockIdx.x, width = 2 * p.reach + 1;
  double sum = 0;
  for (int64_t i = threadIdx.x; i < width; i += kThreads) {
    const double left = p.Left(head, i);
    if (left > 0 && left < p.ramp) sum += dtable[head * width + i] / left;
  }
  sum = cuda::BlockSum64(sum);
  if (threadIdx.x != 0) return;
  dspans[head] += static_cast<float>(sum * p.limit + penalty);
}

dim3 BlocksFor(int64_t count) { return dim3(cuda::CeilDiv(count, kThreads)); }

}  // namespace

void RunOnCuda(Context& context, const SequenceGateCall& call) {
  const int64_t count = call.y.size();
  if (count == 0) return;
  cuda::Launch(context, "gates of sequences", SequenceGateKernel,
               BlocksFor(count), kThreads, call.starts.Raw<int32_t>(),
               call.factors.shape[0], call.factors.Raw<float>(),
               call.x.Raw<float>(), call.y.shape[1], count,
               call.y.Raw<float>());
}

void RunOnCuda(Context& context, const ComposeCall& call) {
  const ComposeArgs& a = call.args;
  ComposeParams p;
  p.tokens = a.own.shape[1];
  p.heads = a.own.shape[2];
  p.own = a.own.Raw<float>();
  p.outer = a.outer.Raw<float>();
  for (int i = 0; i < 3; ++i) p.outer_stride[i] = a.outer.stride[i];
  if (a.replacement && a.share.size() > 0) {
    p.dim = a.share.shape[3];
    p.replacement = a.replacement.Raw<float>();
    for (int i = 0; i < 4; ++i) {
      p.replacement_stride[i] = a.replacement.stride[i];
    }
    // First: the product may stand where a gate stood.
    cuda::Launch(context, "composed gates", ShareKernel,
                 BlocksFor(a.share.size()), kThreads, p, a.share.size(),
                 a.share.Raw<float>());
  }
  cuda::Launch(context, "composed gates", ProductKernel,
               BlocksFor(a.own.size()), kThreads, p, a.own.size(),
               a.product.Raw<float>());
}

void RunOnCuda(Context& context, const ActiveCall& call) {
  const int64_t heads = call.gates.shape[1];
  if (heads == 0) return;
  cuda::Launch(context, "active heads", ActiveKernel, dim3(heads), kThreads,
               call.gates.Raw<float>(), call.gates.shape[0], heads,
               call.active.Raw<int32_t>());
}

void RunOnCuda(Context& context, const SpanCall& call) {
  const int64_t heads = call.spans.shape[0];
  if (heads == 0) return;
  const Spans p = {static_cast<double>(call.problem.ramp),
                   static_cast<double>(call.problem.limit), call.problem.reach,
                   call.spans.Raw<float>()};
  if (call.grads == nullptr) {
    const int64_t count = call.table->size();
    cuda::Launch(context, "spans", SpanKernel, BlocksFor(count), kThreads, p,
                 count, call.table->Raw<float>());
  } else {
    cuda::Launch(context, "spans backward", SpanBackwardKernel, dim3(heads),
                 kThreads, p, call.grads->dtable.Raw<float>(),
                 call.grads->penalty, call.grads->dspans.Raw<float>());
  }
}

namespace {

Reason WhyNot(const GateCall& call) {
  const Device device =
      std::visit([](const auto& step) { return DeviceOf(step); }, call);
  return device.is_cuda() ? "" : "runs on CUDA only";
}

void Run(Context& context, const GateCall& call) {
  std::visit([&](const auto& step) { RunOnCuda(context, step); }, call);
}

}  // namespace

const Implementation<GateCall> kGateCuda = {
    .name = "cuda", .why_not = WhyNot, .run = Run};

}  // namespace headwise
