// cpu.f32: vectorised. Door: ../implementation.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "headwise/ops/adamw/cpu/f32.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// foreach_target.h must come first.
#include <algorithm>
#include <cmath>

#include "headwise/ops/adamw/implementation.h"
#include "hwy/highway.h"

#if HWY_ONCE
#include <string>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/ops/check_view.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Values [begin, end). (g++ leaves a loop with a square root one by one.)
void AdamWRange(const AdamWCall& call, int64_t begin, int64_t end) {
  const AdamWProblem& problem = call.problem;
  float* values = call.args.value.Raw<float>();
  const float* gradients = call.args.gradient.Raw<float>();
  float* firsts = call.args.first.Raw<float>();
  float* seconds = call.args.second.Raw<float>();
  const auto t = static_cast<double>(problem.step);
  const float unbias1 =
      static_cast<float>(1 / (1 - std::pow(double{problem.beta1}, t)));
  const float unbias2 =
      static_cast<float>(1 / (1 - std::pow(double{problem.beta2}, t)));
  // One number, or as many as a vector has: the same operations.
  const auto update = [&](auto d, int64_t i) HWY_ATTR {
    const auto all = [&](float value) HWY_ATTR { return hn::Set(d, value); };
    const auto g =
        hn::Mul(hn::LoadU(d, gradients + i), all(problem.gradient_scale));
    const auto first = hn::MulAdd(all(problem.beta1), hn::LoadU(d, firsts + i),
                                  hn::Mul(all(1 - problem.beta1), g));
    const auto second =
        hn::MulAdd(all(problem.beta2), hn::LoadU(d, seconds + i),
                   hn::Mul(hn::Mul(all(1 - problem.beta2), g), g));
    hn::StoreU(first, d, firsts + i);
    hn::StoreU(second, d, seconds + i);
    const auto down =
        hn::Add(hn::Sqrt(hn::Mul(second, all(unbias2))), all(problem.epsilon));
    const auto move =
        hn::Div(hn::Mul(first, all(problem.rate * unbias1)), down);
    const auto kept = hn::Mul(all(1 - problem.rate * problem.decay),
                              hn::LoadU(d, values + i));
    hn::StoreU(hn::Sub(kept, move), d, values + i);
  };
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = begin;
  for (; i + lanes <= end; i += lanes) update(d, i);
  for (; i < end; ++i) update(hn::CappedTag<float, 1>(), i);
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise {
namespace {

constexpr int64_t kPerTask = 8192;  // values

HWY_EXPORT(AdamWRange);

Reason WhyNot(const AdamWCall& call) {
  return WhyNotOnHost(DType::kF32, {call.args.value, call.args.gradient});
}

void Step(Context& context, const AdamWCall& call) {
  const int64_t count = call.args.value.shape[0];
  context.pool().ParallelFor(
      (count + kPerTask - 1) / kPerTask, [&](int64_t task, int) {
        const int64_t end = std::min(count, (task + 1) * kPerTask);
        HWY_DYNAMIC_DISPATCH(AdamWRange)(call, task * kPerTask, end);
      });
}

}  // namespace

const Implementation<AdamWCall> kAdamWCpuF32 = {
    .name = "cpu.f32", .why_not = WhyNot, .run = Step};

}  // namespace headwise
#endif  // HWY_ONCE
