// Activations over Highway's exponential and tanh. Door: activation.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "headwise/ops/activation/activation.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// foreach_target.h must come first.
#include <algorithm>

#include "headwise/ops/activation/activation.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

#if HWY_ONCE
#include "headwise/backend/cpu/thread_pool.h"
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

V Sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, hn::Exp(d, hn::Neg(x))));
}

// erf by Abramowitz and Stegun 7.1.26, |error| ≤ 1.5e-7; e2 = exp(−x²).
V Erf(D d, V x, V e2) {
  const V one = hn::Set(d, 1.0f);
  const V t = hn::Div(one, hn::MulAdd(hn::Set(d, 0.3275911f), hn::Abs(x), one));
  V p = hn::Set(d, 1.061405429f);
  p = hn::MulAdd(p, t, hn::Set(d, -1.453152027f));
  p = hn::MulAdd(p, t, hn::Set(d, 1.421413741f));
  p = hn::MulAdd(p, t, hn::Set(d, -0.284496736f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.254829592f));
  return hn::CopySign(hn::NegMulAdd(hn::Mul(p, t), e2, one), x);
}

Point At(D d, Activation kind, V x) {
  const V zero = hn::Zero(d), half = hn::Set(d, 0.5f), one = hn::Set(d, 1.0f);
  switch (kind) {
    case Activation::kRelu:
      return {hn::Max(x, zero), hn::IfThenElseZero(hn::Gt(x, zero), one)};
    case Activation::kGelu: {
      const V e2 = hn::Exp(d, hn::Mul(hn::Mul(x, x), hn::Neg(half)));
      const V u = hn::Mul(x, hn::Set(d, 0.70710678f));
      const V phi = hn::MulAdd(half, Erf(d, u, e2), half);
      const V density = hn::Mul(hn::Set(d, 0.39894228f), e2);
      return {hn::Mul(x, phi), hn::MulAdd(x, density, phi)};
    }
    case Activation::kGeluTanh: {
      const V root = hn::Set(d, 0.79788456f), cubic = hn::Set(d, 0.044715f);
      const V square = hn::Mul(x, x);
      const V inner = hn::Mul(root, hn::Mul(x, hn::MulAdd(cubic, square, one)));
      const V t = hn::Tanh(d, inner);
      const V gate = hn::MulAdd(half, t, half);
      const V dinner = hn::Mul(
          root, hn::MulAdd(hn::Mul(hn::Set(d, 3.0f), cubic), square, one));
      const V dgate = hn::Mul(hn::Mul(half, hn::NegMulAdd(t, t, one)), dinner);
      return {hn::Mul(x, gate), hn::MulAdd(x, dgate, gate)};
    }
    case Activation::kSilu: {
      const V s = Sigmoid(d, x);
      const V value = hn::Mul(x, s);
      return {value, hn::MulAdd(value, hn::Sub(one, s), s)};
    }
    case Activation::kTanh: {
      const V t = hn::Tanh(d, x);
      return {t, hn::NegMulAdd(t, t, one)};
    }
  }
  return {zero, zero};
}

void Forward(const ActivationArgs& a, int64_t begin, int64_t end) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN float x[hn::MaxLanes(d)], up[hn::MaxLanes(d)];
  auto value = [&](const float* px, const float* pu) {
    const V y = At(d, a.kind, hn::LoadU(d, px)).value;
    return pu != nullptr ? hn::Mul(y, hn::LoadU(d, pu)) : y;
  };
  int64_t i = begin;
  for (; i + lanes <= end; i += lanes) {
    const float* pu = a.up != nullptr ? a.up + i : nullptr;
    hn::StoreU(value(a.x + i, pu), d, a.y + i);
  }
  if (i == end) return;
  std::fill_n(x, lanes, 0.0f);
  std::fill_n(up, lanes, 0.0f);
  std::copy(a.x + i, a.x + end, x);
  if (a.up != nullptr) std::copy(a.up + i, a.up + end, up);
  hn::Store(value(x, a.up != nullptr ? up : nullptr), d, x);
  std::copy(x, x + (end - i), a.y + i);
}

void Backward(const ActivationArgs& a, const ActivationGrads& g, int64_t begin,
              int64_t end) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = begin; i < end; i += lanes) {
    const int64_t left = std::min(lanes, end - i);
    HWY_ALIGN float x[hn::MaxLanes(d)] = {}, dy[hn::MaxLanes(d)] = {},
                    up[hn::MaxLanes(d)] = {};
    std::copy_n(a.x + i, left, x);
    std::copy_n(g.dy + i, left, dy);
    if (a.up != nullptr) std::copy_n(a.up + i, left, up);
    const Point point = At(d, a.kind, hn::Load(d, x));
    V inner = hn::Load(d, dy);
    if (a.up != nullptr) {
      hn::Store(hn::Mul(inner, point.value), d, x);
      std::copy_n(x, left, g.dup + i);
      inner = hn::Mul(inner, hn::Load(d, up));
    }
    hn::Store(hn::Mul(inner, point.slope), d, dy);
    std::copy_n(dy, left, g.dx + i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise {
namespace {

constexpr int64_t kPerTask = 16384;  // values; fits the first-level cache

HWY_EXPORT(Forward);
HWY_EXPORT(Backward);

template <typename Run>
void ForBlocks(Context& context, int64_t count, const Run& run) {
  context.pool().ParallelFor(
      (count + kPerTask - 1) / kPerTask, [&](int64_t task, int) {
        run(task * kPerTask, std::min(count, (task + 1) * kPerTask));
      });
}

}  // namespace

void ActivationForward(Context& context, const ActivationArgs& args) {
  ForBlocks(context, args.count, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(Forward)(args, begin, end);
  });
}

void ActivationBackward(Context& context, const ActivationArgs& args,
                        const ActivationGrads& grads) {
  ForBlocks(context, args.count, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(Backward)(args, grads, begin, end);
  });
}

}  // namespace headwise
#endif
