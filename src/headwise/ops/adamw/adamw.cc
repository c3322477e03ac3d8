// AdamW, vectorised. Door: adamw.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "headwise/ops/adamw/adamw.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// foreach_target.h must come first.
#include <algorithm>
#include <cmath>

#include "headwise/ops/adamw/adamw.h"
#include "hwy/highway.h"

#if HWY_ONCE
#include <vector>

#include "headwise/backend/cpu/thread_pool.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Values [begin, end). (g++ leaves a loop with a square root one by one.)
void AdamWRange(const AdamWProblem& problem, const AdamWArgs& args,
                int64_t begin, int64_t end) {
  const auto t = static_cast<double>(problem.step);
  const float unbias1 =
      static_cast<float>(1 / (1 - std::pow(double{problem.beta1}, t)));
  const float unbias2 =
      static_cast<float>(1 / (1 - std::pow(double{problem.beta2}, t)));
  // One number, or as many as a vector has: the same operations.
  const auto update = [&](auto d, int64_t i) HWY_ATTR {
    const auto all = [&](float value) HWY_ATTR { return hn::Set(d, value); };
    const auto g =
        hn::Mul(hn::LoadU(d, args.gradient + i), all(problem.gradient_scale));
    const auto first =
        hn::MulAdd(all(problem.beta1), hn::LoadU(d, args.first + i),
                   hn::Mul(all(1 - problem.beta1), g));
    const auto second =
        hn::MulAdd(all(problem.beta2), hn::LoadU(d, args.second + i),
                   hn::Mul(hn::Mul(all(1 - problem.beta2), g), g));
    hn::StoreU(first, d, args.first + i);
    hn::StoreU(second, d, args.second + i);
    const auto down =
        hn::Add(hn::Sqrt(hn::Mul(second, all(unbias2))), all(problem.epsilon));
    const auto move =
        hn::Div(hn::Mul(first, all(problem.rate * unbias1)), down);
    const auto kept = hn::Mul(all(1 - problem.rate * problem.decay),
                              hn::LoadU(d, args.value + i));
    hn::StoreU(hn::Sub(kept, move), d, args.value + i);
  };
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = begin;
  for (; i + lanes <= end; i += lanes) update(d, i);
  for (; i < end; ++i) update(hn::CappedTag<float, 1>(), i);
}

// Σ x².
double Squares(const float* x, int64_t count) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> f;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum0 = hn::Zero(d), sum1 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const auto a = hn::PromoteTo(d, hn::LoadU(f, x + i));
    const auto b = hn::PromoteTo(d, hn::LoadU(f, x + i + lanes));
    sum0 = hn::MulAdd(a, a, sum0);
    sum1 = hn::MulAdd(b, b, sum1);
  }
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
  for (; i < count; ++i) sum += static_cast<double>(x[i]) * x[i];
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise {
namespace {

constexpr int64_t kPerTask = 8192;  // values

HWY_EXPORT(AdamWRange);
HWY_EXPORT(Squares);

}  // namespace

void AdamW(Context& context, const AdamWProblem& problem,
           const AdamWArgs& args) {
  context.pool().ParallelFor(
      (args.count + kPerTask - 1) / kPerTask, [&](int64_t task, int) {
        const int64_t end = std::min(args.count, (task + 1) * kPerTask);
        HWY_DYNAMIC_DISPATCH(AdamWRange)(problem, args, task * kPerTask, end);
      });
}

double SumOfSquares(Context& context, std::span<const float> x) {
  const int64_t count = static_cast<int64_t>(x.size());
  const int64_t tasks = (count + kPerTask - 1) / kPerTask;
  std::vector<double> sums(static_cast<size_t>(tasks));
  context.pool().ParallelFor(tasks, [&](int64_t task, int) {
    const int64_t begin = task * kPerTask;
    sums[task] = HWY_DYNAMIC_DISPATCH(Squares)(
        x.data() + begin, std::min(kPerTask, count - begin));
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace headwise
#endif  // HWY_ONCE
