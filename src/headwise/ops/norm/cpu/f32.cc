// cpu.f32: vectorised along the row. Door: ../implementation.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "headwise/ops/norm/cpu/f32.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// foreach_target.h must come first.
#include <algorithm>
#include <cmath>

#include "headwise/ops/norm/implementation.h"
#include "hwy/highway.h"

#if HWY_ONCE
#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/backend/cpu/workspace.h"
#include "headwise/ops/check_view.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using One = hn::CappedTag<float, 1>;  // for what is left of a row

// Σ f(i) over a row: vectors first, the tail one by one.
template <typename VectorTerm, typename ScalarTerm>
float RowSum(int64_t width, const VectorTerm& vector_term,
             const ScalarTerm& scalar_term) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum0 = hn::Zero(d), sum1 = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * lanes <= width; i += 2 * lanes) {
    sum0 = hn::Add(sum0, vector_term(d, i));
    sum1 = hn::Add(sum1, vector_term(d, i + lanes));
  }
  for (; i + lanes <= width; i += lanes) {
    sum0 = hn::Add(sum0, vector_term(d, i));
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
  for (; i < width; ++i) sum += scalar_term(i);
  return sum;
}

void NormRow(const NormCall& call, int64_t row) {
  const NormArgs& a = call.args;
  const int64_t width = SizesOf(call).width;
  const float* x = a.x.Raw<float>() + SegmentBegin(a.x, row);
  const float* weight = a.weight.Raw<float>();
  const float* bias = a.bias.Raw<float>();
  float* y = a.y.Raw<float>() + SegmentBegin(a.y, row);
  float* kept =
      a.kept ? a.kept.Raw<float>() + SegmentBegin(a.kept, row) : nullptr;
  const float n = static_cast<float>(width);
  const bool layer = call.problem.kind == NormKind::kLayer;
  float mean = 0;
  if (layer) {
    mean = RowSum(
               width, [&](D d, int64_t i) { return hn::LoadU(d, x + i); },
               [&](int64_t i) { return x[i]; }) /
           n;
  }
  const float squares = RowSum(
      width,
      [&](D d, int64_t i) {
        const auto c = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));
        return hn::Mul(c, c);
      },
      [&](int64_t i) { return (x[i] - mean) * (x[i] - mean); });
  const float scale = 1.0f / std::sqrt(squares / n + call.problem.epsilon);
  const auto write = [&](auto d, int64_t i) HWY_ATTR {
    const auto in = hn::LoadU(d, x + i);
    auto value = hn::Mul(hn::Sub(in, hn::Set(d, mean)), hn::Set(d, scale));
    if (kept != nullptr) hn::StoreU(in, d, kept + i);
    if (weight != nullptr) value = hn::Mul(value, hn::LoadU(d, weight + i));
    if (bias != nullptr) value = hn::Add(value, hn::LoadU(d, bias + i));
    hn::StoreU(value, d, y + i);
  };
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= width; i += lanes) write(d, i);
  for (; i < width; ++i) write(One(), i);
  if (layer && a.mean) a.mean.Raw<float>()[row] = mean;
  if (a.scale) a.scale.Raw<float>()[row] = scale;
}

// dx = r · (dŷ − mean(dŷ) − x̂ · mean(dŷ · x̂)), dŷ = dy · w; the mean(dŷ)
// term belongs to kLayer only. Parameter gradients go to dweight, dbias.
void NormRowBackward(const NormCall& call, int64_t row, float* dweight,
                     float* dbias) {
  const NormArgs& a = call.args;
  const NormGrads& g = *call.grads;
  const int64_t width = SizesOf(call).width;
  const float* x = a.x.Raw<float>() + SegmentBegin(a.x, row);
  const float* weight = a.weight.Raw<float>();
  const float* dy = g.dy.Raw<float>() + SegmentBegin(g.dy, row);
  float* dx = g.dx.Raw<float>() + SegmentBegin(g.dx, row);
  const float* added =
      g.added ? g.added.Raw<float>() + SegmentBegin(g.added, row) : nullptr;
  const bool layer = call.problem.kind == NormKind::kLayer;
  const float mean = layer ? a.mean.Raw<float>()[row] : 0.0f;
  const float scale = a.scale.Raw<float>()[row];
  // dŷ and x̂ from i on.
  const auto inner = [&](auto d, int64_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, dy + i);
    return weight != nullptr ? hn::Mul(v, hn::LoadU(d, weight + i)) : v;
  };
  const auto normal = [&](auto d, int64_t i) HWY_ATTR {
    return hn::Mul(hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean)),
                   hn::Set(d, scale));
  };
  const One one;
  const float n = static_cast<float>(width);
  const auto mean_of = [&](const auto& term) HWY_ATTR {
    return RowSum(width, term,
                  [&](int64_t i)
                      HWY_ATTR { return hn::GetLane(term(one, i)); }) /
           n;
  };
  const float mean_inner = layer ? mean_of(inner) : 0.0f;
  const float mean_dot = mean_of([&](auto d, int64_t i) HWY_ATTR {
    return hn::Mul(inner(d, i), normal(d, i));
  });
  const auto write = [&](auto d, int64_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, dy + i);
    const auto unit = normal(d, i);
    const auto in = inner(d, i);
    if (dweight != nullptr) {
      hn::StoreU(hn::MulAdd(v, unit, hn::LoadU(d, dweight + i)), d,
                 dweight + i);
    }
    if (dbias != nullptr) {
      hn::StoreU(hn::Add(v, hn::LoadU(d, dbias + i)), d, dbias + i);
    }
    const auto rest = hn::Sub(hn::Sub(in, hn::Set(d, mean_inner)),
                              hn::Mul(unit, hn::Set(d, mean_dot)));
    auto value = hn::Mul(hn::Set(d, scale), rest);
    if (added != nullptr) value = hn::Add(hn::LoadU(d, added + i), value);
    hn::StoreU(value, d, dx + i);
  };
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= width; i += lanes) write(d, i);
  for (; i < width; ++i) write(one, i);
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise {
namespace {

// Rows of one task: the unit of work and of partial parameter gradients.
constexpr int64_t kRowsPerTask = 32;

HWY_EXPORT(NormRow);
HWY_EXPORT(NormRowBackward);

template <typename Run>
void ForRowBlocks(Context& context, int64_t rows, const Run& run) {
  const int64_t tasks = (rows + kRowsPerTask - 1) / kRowsPerTask;
  context.pool().ParallelFor(tasks, [&](int64_t task, int) {
    run(task, task * kRowsPerTask, std::min(rows, (task + 1) * kRowsPerTask));
  });
}

void Forward(Context& context, const NormCall& call) {
  const NormSizes sizes = SizesOf(call);
  ForRowBlocks(context, sizes.rows * sizes.segments,
               [&](int64_t, int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) {
                   HWY_DYNAMIC_DISPATCH(NormRow)(call, row);
                 }
               });
}

void Backward(Context& context, const NormCall& call) {
  const NormSizes sizes = SizesOf(call);
  const int64_t width = sizes.width;
  const int64_t rows = sizes.rows * sizes.segments;
  const int64_t tasks = (rows + kRowsPerTask - 1) / kRowsPerTask;
  float* dweight = call.grads->dweight.Raw<float>();
  float* dbias = call.grads->dbias.Raw<float>();
  // One partial sum a task, added in order: the same at any thread count.
  Scratch partial = context.workspace().TakeArray<float>(tasks * 2 * width);
  float* sums = partial.Raw<float>();
  std::fill_n(sums, tasks * 2 * width, 0.0f);
  ForRowBlocks(context, rows, [&](int64_t task, int64_t begin, int64_t end) {
    float* part = sums + task * 2 * width;
    for (int64_t row = begin; row < end; ++row) {
      HWY_DYNAMIC_DISPATCH(NormRowBackward)
      (call, row, dweight != nullptr ? part : nullptr,
       dbias != nullptr ? part + width : nullptr);
    }
  });
  for (int64_t task = 0; task < tasks; ++task) {
    const float* part = sums + task * 2 * width;
    for (int64_t i = 0; i < width; ++i) {
      if (dweight != nullptr) dweight[i] += part[i];
      if (dbias != nullptr) dbias[i] += part[width + i];
    }
  }
}

Reason WhyNot(const NormCall& call) {
  return WhyNotOnHost(DType::kF32, {call.args.x});
}

void Run(Context& context, const NormCall& call) {
  call.grads == nullptr ? Forward(context, call) : Backward(context, call);
}

}  // namespace

const Implementation<NormCall> kNormCpuF32 = {
    .name = "cpu.f32", .why_not = WhyNot, .run = Run};

}  // namespace headwise
#endif
