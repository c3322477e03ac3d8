// cpu.f32: over Highway's exponential and tanh. Door: ../implementation.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "headwise/ops/activation/cpu/f32.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// foreach_target.h must come first.
#include <algorithm>
#include <type_traits>

#include "headwise/ops/activation/implementation.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

#if HWY_ONCE
#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/ops/check_view.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Value and slope of one activation at x.
struct Point {
  V value;
  V slope;
};

HWY_INLINE V Sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f), most = hn::Set(d, 88.0f);  // of hn::Exp
  const V e = hn::Exp(d, hn::Min(hn::Neg(x), most));
  return hn::Div(one, hn::Add(one, e));
}

// erf by Abramowitz and Stegun 7.1.26, |error| ≤ 1.5e-7; e2 = exp(−x²).
HWY_INLINE V Erf(D d, V x, V e2) {
  const V one = hn::Set(d, 1.0f);
  const V t = hn::Div(one, hn::MulAdd(hn::Set(d, 0.3275911f), hn::Abs(x), one));
  V p = hn::Set(d, 1.061405429f);
  p = hn::MulAdd(p, t, hn::Set(d, -1.453152027f));
  p = hn::MulAdd(p, t, hn::Set(d, 1.421413741f));
  p = hn::MulAdd(p, t, hn::Set(d, -0.284496736f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.254829592f));
  return hn::CopySign(hn::NegMulAdd(hn::Mul(p, t), e2, one), x);
}

template <Activation kKind>
HWY_INLINE Point At(D d, V x) {
  const V zero = hn::Zero(d), half = hn::Set(d, 0.5f), one = hn::Set(d, 1.0f);
  if constexpr (kKind == Activation::kRelu) {
    return {hn::Max(x, zero), hn::IfThenElseZero(hn::Gt(x, zero), one)};
  } else if constexpr (kKind == Activation::kGelu) {
    const V e2 = hn::Exp(d, hn::Mul(hn::Mul(x, x), hn::Neg(half)));
    const V u = hn::Mul(x, hn::Set(d, 0.70710678f));
    const V phi = hn::MulAdd(half, Erf(d, u, e2), half);
    const V density = hn::Mul(hn::Set(d, 0.39894228f), e2);
    return {hn::Mul(x, phi), hn::MulAdd(x, density, phi)};
  } else if constexpr (kKind == Activation::kGeluTanh) {
    const V root = hn::Set(d, 0.79788456f), cubic = hn::Set(d, 0.044715f);
    const V square = hn::Mul(x, x);
    const V inner = hn::Mul(root, hn::Mul(x, hn::MulAdd(cubic, square, one)));
    // (1 + tanh u) / 2 = σ(2u), which takes half the time of a tanh.
    const V gate = Sigmoid(d, hn::Add(inner, inner));
    const V dinner = hn::Mul(
        root, hn::MulAdd(hn::Mul(hn::Set(d, 3.0f), cubic), square, one));
    const V dgate =
        hn::Mul(hn::Add(dinner, dinner), hn::Mul(gate, hn::Sub(one, gate)));
    return {hn::Mul(x, gate), hn::MulAdd(x, dgate, gate)};
  } else if constexpr (kKind == Activation::kSilu) {
    const V s = Sigmoid(d, x);
    const V value = hn::Mul(x, s);
    return {value, hn::MulAdd(value, hn::Sub(one, s), s)};
  } else if constexpr (kKind == Activation::kClampedSilu) {
    const V limit = hn::Set(d, float{kClampedSiluLimit});
    const V steep = hn::Set(d, static_cast<float>(kClampedSiluSlope));
    const V c = hn::Min(x, limit), s = Sigmoid(d, hn::Mul(steep, c));
    const V value = hn::Mul(c, s);
    const V slope = hn::MulAdd(hn::Mul(steep, value), hn::Sub(one, s), s);
    return {value, hn::IfThenElseZero(hn::Le(x, limit), slope)};
  } else {
    static_assert(kKind == Activation::kTanh);
    const V t = hn::Tanh(d, x);
    return {t, hn::NegMulAdd(t, t, one)};
  }
}

// What f(x) is multiplied with, of u.
template <Activation kKind>
HWY_INLINE V UpAt(V u) {
  if constexpr (kKind != Activation::kClampedSilu) return u;
  const D d;
  const V limit = hn::Set(d, float{kClampedSiluLimit});
  return hn::Add(hn::Set(d, 1.0f), hn::Clamp(u, hn::Neg(limit), limit));
}
// Its slope times v.
template <Activation kKind>
HWY_INLINE V TimesUpSlope(V u, V v) {
  if constexpr (kKind != Activation::kClampedSilu) return v;
  const V limit = hn::Set(D(), float{kClampedSiluLimit});
  return hn::IfThenElseZero(hn::Le(hn::Abs(u), limit), v);
}

// Calls run(kind) with the kind as a constant: a switch for every vector would
// keep sums out of registers.
template <typename Run>
HWY_INLINE void WithKind(Activation kind, const Run& run) {
  using enum Activation;
  switch (kind) {
    case kRelu:
      return run(std::integral_constant<Activation, kRelu>());
    case kGelu:
      return run(std::integral_constant<Activation, kGelu>());
    case kGeluTanh:
      return run(std::integral_constant<Activation, kGeluTanh>());
    case kSilu:
      return run(std::integral_constant<Activation, kSilu>());
    case kTanh:
      return run(std::integral_constant<Activation, kTanh>());
    case kClampedSilu:
      return run(std::integral_constant<Activation, kClampedSilu>());
  }
}

// Calls run(i, whole) for every vector of [begin, end); `whole` is false for
// what is left at the end.
template <typename Run>
HWY_INLINE void ForVectors(int64_t begin, int64_t end, const Run& run) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(D()));
  int64_t i = begin;
  for (; i + lanes <= end; i += lanes) run(i, std::true_type());
  if (i < end) run(i, std::false_type());
}

// A vector of [count] numbers from p + i on, zero past `end`.
template <typename Whole>
HWY_INLINE V LoadAt(const float* p, int64_t i, int64_t end, Whole) {
  const D d;
  if constexpr (Whole::value) return hn::LoadU(d, p + i);
  HWY_ALIGN float part[hn::MaxLanes(d)] = {};
  std::copy(p + i, p + end, part);
  return hn::Load(d, part);
}
template <typename Whole>
HWY_INLINE void StoreAt(V v, float* p, int64_t i, int64_t end, Whole) {
  const D d;
  if constexpr (Whole::value) return hn::StoreU(v, d, p + i);
  HWY_ALIGN float part[hn::MaxLanes(d)];
  hn::Store(v, d, part);
  std::copy(part, part + (end - i), p + i);
}

// Where row `row` of a view begins; null where there is none.
template <typename Void>
auto Row(const BasicView<Void>& view, int64_t row) {
  return view ? view.template Raw<float>() + row * view.stride[0] : nullptr;
}

// Numbers [begin, end) from the beginning of a row on.
void Forward(const ActivationCall& call, int64_t row, int64_t begin,
             int64_t end) {
  const float* x = Row(call.args.x, row);
  const float* up = Row(call.args.up, row);
  float* y = Row(call.args.y, row);
  WithKind(call.problem.kind, [&](auto kind) HWY_ATTR {
    ForVectors(begin, end, [&](int64_t i, auto whole) HWY_ATTR {
      V value = At<kind()>(D(), LoadAt(x, i, end, whole)).value;
      if (up != nullptr) {
        value = hn::Mul(value, UpAt<kind()>(LoadAt(up, i, end, whole)));
      }
      StoreAt(value, y, i, end, whole);
    });
  });
}

void Backward(const ActivationCall& call, int64_t row, int64_t begin,
              int64_t end) {
  const float* x = Row(call.args.x, row);
  const float* up = Row(call.args.up, row);
  float* y = Row(call.args.y, row);
  const float* dy = Row(call.grads->dy, row);
  float* dx = Row(call.grads->dx, row);
  float* dup = Row(call.grads->dup, row);
  WithKind(call.problem.kind, [&](auto kind) HWY_ATTR {
    ForVectors(begin, end, [&](int64_t i, auto whole) HWY_ATTR {
      const Point point = At<kind()>(D(), LoadAt(x, i, end, whole));
      V inner = LoadAt(dy, i, end, whole);
      V value = point.value;
      if (up != nullptr) {
        const V u = LoadAt(up, i, end, whole), gate = UpAt<kind()>(u);
        StoreAt(TimesUpSlope<kind()>(u, hn::Mul(inner, value)), dup, i, end,
                whole);
        inner = hn::Mul(inner, gate);
        value = hn::Mul(value, gate);
      }
      if (y != nullptr) StoreAt(value, y, i, end, whole);
      StoreAt(hn::Mul(inner, point.slope), dx, i, end, whole);
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise {
namespace {

constexpr int64_t kPerTask = 16384;  // values; fits the first-level cache
// One token's hidden layer is shared out too: both threads of two gain 3 µs by
// it, and lose less than one in meeting.
constexpr int64_t kLeastPerTask = 512;

HWY_EXPORT(Forward);
HWY_EXPORT(Backward);

void RunRange(const ActivationCall& call, int64_t row, int64_t begin,
              int64_t end) {
  if (call.grads == nullptr) {
    HWY_DYNAMIC_DISPATCH(Forward)(call, row, begin, end);
  } else {
    HWY_DYNAMIC_DISPATCH(Backward)(call, row, begin, end);
  }
}

// Whether the rows of all views lie end to end.
bool IsDense(const ActivationCall& call) {
  const ActivationArgs& a = call.args;
  if (a.x.shape[0] <= 1) return true;
  ActivationGrads g;
  if (call.grads != nullptr) g = *call.grads;
  for (const ConstTensorView& view :
       {a.x, a.up, ConstTensorView(a.y), g.dy, ConstTensorView(g.dx),
        ConstTensorView(g.dup)}) {
    if (view && view.stride[0] != a.x.shape[1]) return false;
  }
  return true;
}

void Run(Context& context, const ActivationCall& call) {
  const int64_t rows = call.args.x.shape[0], width = call.args.x.shape[1];
  const int64_t count = rows * width;
  if (count == 0) return;
  if (IsDense(call)) {
    const int64_t share = count / context.threads();
    const int64_t step = std::clamp(share, kLeastPerTask, kPerTask);
    return context.pool().ParallelFor(
        (count + step - 1) / step, [&](int64_t task, int) {
          RunRange(call, 0, task * step, std::min(count, (task + 1) * step));
        });
  }
  const int64_t step = std::max<int64_t>(1, kPerTask / width);
  context.pool().ParallelFor((rows + step - 1) / step, [&](int64_t task, int) {
    const int64_t end = std::min(rows, (task + 1) * step);
    for (int64_t row = task * step; row < end; ++row) {
      RunRange(call, row, 0, width);
    }
  });
}

Reason WhyNot(const ActivationCall& call) {
  return WhyNotOnHost(DType::kF32, {call.args.x});
}

}  // namespace

const Implementation<ActivationCall> kActivationCpuF32 = {
    .name = "cpu.f32", .why_not = WhyNot, .run = Run};

}  // namespace headwise
#endif
