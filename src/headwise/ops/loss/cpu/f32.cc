// cpu.f32: vectorised along the classes. Door: ../implementation.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "headwise/ops/loss/cpu/f32.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// foreach_target.h must come first.
#include <algorithm>
#include <cmath>

#include "headwise/ops/ids.h"
#include "headwise/ops/loss/implementation.h"
#include "hwy/contrib/math/math-inl.h"
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

// Σ exp(z − top); e (may be null) receives the terms.
double ExpSum(const float* z, int64_t count, float top, float* e) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto shift = hn::Set(d, top);
  auto sums = hn::Zero(d);
  double sum = 0;
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto term = hn::Exp(d, hn::Sub(hn::LoadU(d, z + i), shift));
    if (e != nullptr) hn::StoreU(term, d, e + i);
    sums = hn::Add(sums, term);
    // Vocabularies are large: empty the f32 sums before they lose digits.
    if (i % 4096 == 4096 - lanes) {
      sum += hn::GetLane(hn::SumOfLanes(d, sums));
      sums = hn::Zero(d);
    }
  }
  sum += hn::GetLane(hn::SumOfLanes(d, sums));
  for (; i < count; ++i) {
    const float term = std::exp(z[i] - top);
    if (e != nullptr) e[i] = term;
    sum += term;
  }
  return sum;
}

void CrossEntropyRow(const CrossEntropyCall& call, int64_t row) {
  const CrossEntropyProblem& p = call.problem;
  const CrossEntropyArgs& a = call.args;
  const int64_t classes = a.logits.shape[1];
  const float* z = a.logits.Raw<float>() + row * a.logits.stride[0];
  float* dz =
      a.dlogits ? a.dlogits.Raw<float>() + row * a.dlogits.stride[0] : nullptr;
  float& loss = a.losses.Raw<float>()[row];
  const int64_t target = IdAt(a.targets, row);
  if (target == kIgnoreTarget) {
    loss = 0;
    if (dz != nullptr) std::fill_n(dz, classes, 0.0f);
    return;
  }
  const float top = *std::max_element(z, z + classes);
  const float chosen = z[target];
  const float uniform = p.smoothing / static_cast<float>(classes);
  double total = 0;
  if (p.smoothing > 0) {
    for (int64_t c = 0; c < classes; ++c) total += z[c];
  }
  const double sum = ExpSum(z, classes, top, dz);
  loss = static_cast<float>(top + std::log(sum) - (1.0 - p.smoothing) * chosen -
                            uniform * total);
  if (dz == nullptr) return;
  const float inverse = static_cast<float>(1.0 / sum);
  for (int64_t c = 0; c < classes; ++c) {
    dz[c] = p.scale * (dz[c] * inverse - uniform);
  }
  dz[target] -= p.scale * (1 - p.smoothing);
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise {
namespace {

HWY_EXPORT(CrossEntropyRow);

Reason WhyNot(const CrossEntropyCall& call) {
  return WhyNotOnHost(DType::kF32, {call.args.logits});
}

void Run(Context& context, const CrossEntropyCall& call) {
  context.pool().ParallelFor(call.args.logits.shape[0], [&](int64_t row, int) {
    HWY_DYNAMIC_DISPATCH(CrossEntropyRow)(call, row);
  });
}

}  // namespace

const Implementation<CrossEntropyCall> kCrossEntropyCpuF32 = {
    .name = "cpu.f32", .why_not = WhyNot, .run = Run};

}  // namespace headwise
#endif
