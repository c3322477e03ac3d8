// cpu.reduce: sums and marks of f32. Door: ../implementation.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "headwise/ops/pointwise/cpu/reduce.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// foreach_target.h must come first.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <string>

#include "headwise/ops/pointwise/implementation.h"
#include "hwy/highway.h"

#if HWY_ONCE
#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/backend/cpu/workspace.h"
#include "headwise/ops/check_view.h"
#include "headwise/tensor/slice.h"
#include "headwise/tensor/walk.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Σ x².
double SquaresOf(const float* x, int64_t count) {
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

constexpr int64_t kColumnsPerTask = 64;
constexpr int64_t kSquaresPerTask = 8192;
constexpr int64_t kMarksPerTask = 65536;

HWY_EXPORT(SquaresOf);

// Tasks own columns, so that each has one sum, over the rows in order.
void ColumnSums(Context& context, const ConstTensorView& x, float* sums) {
  const int64_t columns = x.shape[x.rank - 1];
  const Walk<1> rows({At(x, x.rank - 1, 0)});
  const int64_t stride = rows.step()[0];
  const auto some = [&](int64_t task, int) {
    const int64_t begin = task * kColumnsPerTask;
    const int64_t count = std::min(kColumnsPerTask, columns - begin);
    std::array<double, kColumnsPerTask> totals{};
    rows.ForRuns(0, rows.size(), [&](const auto& places, int64_t together) {
      const float* row = x.Raw<float>() + places[0] + begin;
      for (int64_t r = 0; r < together; ++r, row += stride) {
        for (int64_t c = 0; c < count; ++c) totals[c] += row[c];
      }
    });
    for (int64_t c = 0; c < count; ++c) {
      sums[begin + c] += static_cast<float>(totals[c]);
    }
  };
  context.pool().ParallelFor((columns + kColumnsPerTask - 1) / kColumnsPerTask,
                             some);
}

void Squares(Context& context, const ConstTensorView& x, double& sum) {
  const int64_t count = x.size();
  const int64_t tasks = (count + kSquaresPerTask - 1) / kSquaresPerTask;
  const Scratch memory = context.workspace().TakeArray<double>(tasks);
  double* sums = memory.Raw<double>();
  context.pool().ParallelFor(tasks, [&](int64_t task, int) {
    const int64_t begin = task * kSquaresPerTask;
    sums[task] = HWY_DYNAMIC_DISPATCH(SquaresOf)(
        x.Raw<float>() + begin, std::min(kSquaresPerTask, count - begin));
  });
  double total = 0;
  for (int64_t task = 0; task < tasks; ++task) total += sums[task];
  sum += total;
}

// Without its sign, a float's bits order as its size does; NaN and infinity
// come last.
bool AnyBeyond(const float* values, int64_t count, int32_t limit) {
  int32_t beyond = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int32_t size = std::bit_cast<int32_t>(values[i]) & 0x7fffffff;
    beyond |= static_cast<int32_t>(size > limit);
  }
  return beyond != 0;
}

void Mark(Context& context, const PointwiseCall& call) {
  const ConstTensorView& x = call.a;
  const int32_t limit = std::bit_cast<int32_t>(call.factor);
  const Walk<1> walk({x});
  std::atomic<bool> found = false;
  const auto some = [&](int64_t task, int) {
    const int64_t begin = task * kMarksPerTask;
    walk.ForRuns(begin, std::min(walk.size(), begin + kMarksPerTask),
                 [&](const auto& places, int64_t count) {
                   if (AnyBeyond(x.Raw<float>() + places[0], count, limit)) {
                     found.store(true, std::memory_order_relaxed);
                   }
                 });
  };
  if (walk.size() <= kMarksPerTask) {
    some(0, 0);
  } else {
    context.pool().ParallelFor(
        (walk.size() + kMarksPerTask - 1) / kMarksPerTask, some);
  }
  if (found) *call.y.Raw<int32_t>() = 1;
}

Reason WhyNot(const PointwiseCall& call) {
  if (!Reduces(call)) return "knows sums only";
  if (std::string why = WhyNotOnHost(DType::kF32, {call.a}); !why.empty()) {
    return why;
  }
  const int last = call.a.rank - 1;
  switch (call.kind) {
    case PointwiseKind::kColumnSums:
      return call.a.shape[last] == 1 || call.a.stride[last] == 1
                 ? ""
                 : "sums columns that lie together only";
    case PointwiseKind::kSumOfSquares:
      return IsDense(call.a) ? "" : "squares dense views only";
    default:
      return Walk<1>({call.a}).step()[0] == 1
                 ? ""
                 : "marks elements that lie together only";
  }
}

void Run(Context& context, const PointwiseCall& call) {
  switch (call.kind) {
    case PointwiseKind::kColumnSums:
      return ColumnSums(context, call.a, call.y.Raw<float>());
    case PointwiseKind::kSumOfSquares:
      return Squares(context, call.a, *call.y.Raw<double>());
    default:
      return Mark(context, call);
  }
}

}  // namespace

const Implementation<PointwiseCall> kPointwiseCpuReduce = {
    .name = "cpu.reduce", .why_not = WhyNot, .run = Run};

}  // namespace headwise
#endif  // HWY_ONCE
