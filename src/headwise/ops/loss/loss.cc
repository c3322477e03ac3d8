// Cross-entropy, vectorised along the classes. Door: loss.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "headwise/ops/loss/loss.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// foreach_target.h must come first.
#include <algorithm>
#include <cmath>

#include "headwise/ops/loss/loss.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

#if HWY_ONCE
#include <string>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/error.h"
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

void CrossEntropyRow(const CrossEntropyProblem& p, const CrossEntropyArgs& a,
                     int64_t row) {
  const float* z = a.logits + row * p.classes;
  float* dz = a.dlogits != nullptr ? a.dlogits + row * p.classes : nullptr;
  const int32_t target = a.targets[row];
  if (target == kIgnoreTarget) {
    a.losses[row] = 0;
    if (dz != nullptr) std::fill_n(dz, p.classes, 0.0f);
    return;
  }
  const float top = *std::max_element(z, z + p.classes);
  const float chosen = z[target];
  const float uniform = p.smoothing / static_cast<float>(p.classes);
  double total = 0;
  if (p.smoothing > 0) {
    for (int64_t c = 0; c < p.classes; ++c) total += z[c];
  }
  const double sum = ExpSum(z, p.classes, top, dz);
  a.losses[row] = static_cast<float>(
      top + std::log(sum) - (1.0 - p.smoothing) * chosen - uniform * total);
  if (dz == nullptr) return;
  const float inverse = static_cast<float>(1.0 / sum);
  for (int64_t c = 0; c < p.classes; ++c) {
    dz[c] = a.scale * (dz[c] * inverse - uniform);
  }
  dz[target] -= a.scale * (1 - p.smoothing);
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise {
namespace {

HWY_EXPORT(CrossEntropyRow);

}  // namespace

void CrossEntropy(Context& context, const CrossEntropyProblem& problem,
                  const CrossEntropyArgs& args) {
  for (int64_t row = 0; row < problem.rows; ++row) {
    const int32_t target = args.targets[row];
    if (target == kIgnoreTarget || (target >= 0 && target < problem.classes)) {
      continue;
    }
    throw Error(
        ErrorCode::kInvalidArgument,
        {"loss", "targets in [0, " + std::to_string(problem.classes) + ")",
         std::to_string(target) + " in row " + std::to_string(row), ""});
  }
  context.pool().ParallelFor(problem.rows, [&](int64_t row, int) {
    HWY_DYNAMIC_DISPATCH(CrossEntropyRow)(problem, args, row);
  });
}

}  // namespace headwise
#endif
