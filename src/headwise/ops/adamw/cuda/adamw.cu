// cuda: one pass over the flat buffers, with the operations of cpu.f32 in their
// order, so that a run goes on alike on either device.
// Door: ../implementation.h.
#include <cmath>

#include "headwise/ops/adamw/implementation.h"
#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/ops/cuda/why_not.h"

namespace headwise {
namespace {

struct Params {
  float beta1, beta2, unbias2, epsilon, gradient_scale;
  float pace;  // of m: rate / (1 − β₁ᵗ)
  float kept;  // of w: 1 − rate · decay
  float *value, *first, *second;
};

Params ParamsOf(const AdamWCall& call) {
  const AdamWProblem& p = call.problem;
  const auto t = static_cast<double>(p.step);
  const auto unbias = [&](float beta) {
    return static_cast<float>(1 / (1 - std::pow(double{beta}, t)));
  };
  return {.beta1 = p.beta1,
          .beta2 = p.beta2,
          .unbias2 = unbias(p.beta2),
          .epsilon = p.epsilon,
          .gradient_scale = p.gradient_scale,
          .pace = p.rate * unbias(p.beta1),
          .kept = 1 - p.rate * p.decay,
          .value = call.args.value.Raw<float>(),
          .first = call.args.first.Raw<float>(),
          .second = call.args.second.Raw<float>()};
}

// The roundings are spelt out: the compiler would fuse some of them.
__device__ void Update(const Params& p, float gradient, float& value,
                       float& first, float& second) {
  const float g = __fmul_rn(gradient, p.gradient_scale);
  first = __fmaf_rn(p.beta1, first, __fmul_rn(1 - p.beta1, g));
  second = __fmaf_rn(p.beta2, second, __fmul_rn(__fmul_rn(1 - p.beta2, g), g));
  const float down =
      __fadd_rn(__fsqrt_rn(__fmul_rn(second, p.unbias2)), p.epsilon);
  const float move = __fdiv_rn(__fmul_rn(first, p.pace), down);
  value = __fsub_rn(__fmul_rn(p.kept, value), move);
}

template <typename T>
__global__ void StepKernel(Params p, const T* gradients, cuda::RowShare share) {
  share.ForRows([&](int64_t, int64_t first, int64_t step) {
    const auto update = [&](int64_t i, auto count) {
      constexpr int kCount = decltype(count)::value;
      float g[kCount], w[kCount], m[kCount], v[kCount];
      cuda::Load(gradients + i, g);
      cuda::Load(p.value + i, w);
      cuda::Load(p.first + i, m);
      cuda::Load(p.second + i, v);
#pragma unroll
      for (int j = 0; j < kCount; ++j) Update(p, g[j], w[j], m[j], v[j]);
      cuda::Store(w, p.value + i);
      cuda::Store(m, p.first + i);
      cuda::Store(v, p.second + i);
    };
    cuda::ForPacks<cuda::kPack<float>>(first, step, share.width, update,
                                       gradients, p.value, p.first, p.second);
  });
}

Reason WhyNot(const AdamWCall& call) {
  return cuda::WhyNotFloats({call.args.value, call.args.gradient});
}

void Step(Context& context, const AdamWCall& call) {
  const int64_t count = call.args.value.shape[0];
  if (count == 0) return;
  cuda::WithFloatType(call.args.gradient.type, [&](auto element) {
    using T = decltype(element);
    const cuda::RowShare share(1, count, cuda::kPack<float>);
    cuda::Launch(context, "adamw", StepKernel<T>, share.Grid(), share.threads,
                 ParamsOf(call), call.args.gradient.Raw<T>(), share);
  });
}

}  // namespace

const Implementation<AdamWCall> kAdamWCuda = {
    .name = "cuda", .why_not = WhyNot, .run = Step};

}  // namespace headwise
