// cpu.f32: element by element, as vectors where elements lie together or one
// stands for all. Door: ../implementation.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "headwise/ops/pointwise/cpu/f32.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// foreach_target.h must come first.
#include <algorithm>
#include <string>

#include "headwise/ops/pointwise/implementation.h"
#include "hwy/highway.h"

#if HWY_ONCE
#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/ops/check_view.h"
#include "headwise/tensor/walk.h"
#endif

#ifndef HEADWISE_OPS_POINTWISE_CPU_F32_RUN
#define HEADWISE_OPS_POINTWISE_CPU_F32_RUN
namespace headwise {

// Elements of one run, `a_step` … elements apart.
struct PointwiseRun {
  PointwiseKind kind;
  float factor;
  const float* a;
  const float* b;
  float* y;
  int64_t a_step, b_step, y_step;
  int64_t count;
};

}  // namespace headwise
#endif

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// y = op(a, b), one rounding a step: the same in vectors and one by one.
template <typename Op>
void ForElements(const PointwiseRun& run, const Op& op) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  if (run.y_step == 1 && run.a_step <= 1 && run.b_step <= 1 &&
      run.a_step >= 0 && run.b_step >= 0) {
    const auto all_a = hn::Set(d, *run.a), all_b = hn::Set(d, *run.b);
    for (; i + lanes <= run.count; i += lanes) {
      const auto a = run.a_step == 1 ? hn::LoadU(d, run.a + i) : all_a;
      const auto b = run.b_step == 1 ? hn::LoadU(d, run.b + i) : all_b;
      hn::StoreU(op(d, a, b), d, run.y + i);
    }
  }
  for (; i < run.count; ++i) {
    const auto a = hn::Set(one, run.a[i * run.a_step]);
    const auto b = hn::Set(one, run.b[i * run.b_step]);
    run.y[i * run.y_step] = hn::GetLane(op(one, a, b));
  }
}

void RunPointwise(const PointwiseRun& run) {
  switch (run.kind) {
    case PointwiseKind::kAdd:
      return ForElements(
          run, [](auto, auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
    case PointwiseKind::kAddScaled:
      return ForElements(run, [&](auto d, auto a, auto b) HWY_ATTR {
        return hn::Add(a, hn::Mul(hn::Set(d, run.factor), b));
      });
    case PointwiseKind::kMultiply:
      return ForElements(
          run, [](auto, auto a, auto b) HWY_ATTR { return hn::Mul(a, b); });
    default:  // kScale
      return ForElements(run, [&](auto d, auto a, auto) HWY_ATTR {
        return hn::Mul(hn::Set(d, run.factor), a);
      });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise {
namespace {

constexpr int64_t kPerTask = 16384;  // values

HWY_EXPORT(RunPointwise);

Reason WhyNot(const PointwiseCall& call) {
  if (Reduces(call)) return "sums nothing";
  return WhyNotOnHost(DType::kF32, {call.a, call.b, call.y});
}

void Run(Context& context, const PointwiseCall& call) {
  const ConstTensorView& b =
      call.kind == PointwiseKind::kScale ? call.a : call.b;
  const Walk<3> walk({call.a, b, call.y});
  const auto some = [&](int64_t task, int) {
    const int64_t begin = task * kPerTask;
    walk.ForRuns(
        begin, std::min(walk.size(), begin + kPerTask),
        [&](const auto& places, int64_t count) {
          HWY_DYNAMIC_DISPATCH(RunPointwise)
          ({call.kind, call.factor, call.a.Raw<float>() + places[0],
            b.Raw<float>() + places[1], call.y.Raw<float>() + places[2],
            walk.step()[0], walk.step()[1], walk.step()[2], count});
        });
  };
  if (walk.size() <= kPerTask) return some(0, 0);
  context.pool().ParallelFor((walk.size() + kPerTask - 1) / kPerTask, some);
}

}  // namespace

const Implementation<PointwiseCall> kPointwiseCpuF32 = {
    .name = "cpu.f32", .why_not = WhyNot, .run = Run};

}  // namespace headwise
#endif  // HWY_ONCE
