// Activations over Highway's exponential and tanh. Door: activation.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "headwise/ops/activation/activation.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
// foreach_target.h must come first.
#include <algorithm>
#include <type_traits>

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
  } else {
    static_assert(kKind == Activation::kTanh);
    const V t = hn::Tanh(d, x);
    return {t, hn::NegMulAdd(t, t, one)};
  }
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

void Forward(const ActivationArgs& a, int64_t begin, int64_t end) {
  WithKind(a.kind, [&](auto kind) HWY_ATTR {
    ForVectors(begin, end, [&](int64_t i, auto whole) HWY_ATTR {
      V y = At<kind()>(D(), LoadAt(a.x, i, end, whole)).value;
      if (a.up != nullptr) y = hn::Mul(y, LoadAt(a.up, i, end, whole));
      StoreAt(y, a.y, i, end, whole);
    });
  });
}

void Backward(const ActivationArgs& a, const ActivationGrads& g, int64_t begin,
              int64_t end) {
  WithKind(a.kind, [&](auto kind) HWY_ATTR {
    ForVectors(begin, end, [&](int64_t i, auto whole) HWY_ATTR {
      const Point point = At<kind()>(D(), LoadAt(a.x, i, end, whole));
      V inner = LoadAt(g.dy, i, end, whole);
      V value = point.value;
      if (a.up != nullptr) {
        const V up = LoadAt(a.up, i, end, whole);
        StoreAt(hn::Mul(inner, value), g.dup, i, end, whole);
        inner = hn::Mul(inner, up);
        value = hn::Mul(value, up);
      }
      if (a.y != nullptr) StoreAt(value, a.y, i, end, whole);
      StoreAt(hn::Mul(inner, point.slope), g.dx, i, end, whole);
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

template <typename T>
T* Plus(T* p, int64_t offset) {
  return p != nullptr ? p + offset : nullptr;
}

// Calls run(args, grads, begin, end) for pieces of all numbers.
template <typename Run>
void ForBlocks(Context& context, const ActivationArgs& args,
               const ActivationGrads& grads, const Run& run) {
  if (args.width == 0 || args.width == args.count) {
    const int64_t share = args.count / context.threads();
    const int64_t step = std::clamp(share, kLeastPerTask, kPerTask);
    return context.pool().ParallelFor(
        (args.count + step - 1) / step, [&](int64_t task, int) {
          run(args, grads, task * step,
              std::min(args.count, (task + 1) * step));
        });
  }
  const int64_t rows = args.count / args.width;
  const int64_t step = std::max<int64_t>(1, kPerTask / args.width);
  context.pool().ParallelFor((rows + step - 1) / step, [&](int64_t task, int) {
    const int64_t end = std::min(rows, (task + 1) * step);
    for (int64_t r = task * step; r < end; ++r) {
      const int64_t in = r * args.stride, out = r * args.width;
      ActivationArgs a = args;
      a.x = Plus(args.x, in);
      a.up = Plus(args.up, in);
      a.y = Plus(args.y, out);
      const ActivationGrads g = {Plus(grads.dy, out), Plus(grads.dx, in),
                                 Plus(grads.dup, in)};
      run(a, g, 0, args.width);
    }
  });
}

}  // namespace

void ActivationForward(Context& context, const ActivationArgs& args) {
  ForBlocks(context, args, {},
            [](const ActivationArgs& a, const ActivationGrads&, int64_t begin,
               int64_t end) {
              HWY_DYNAMIC_DISPATCH(Forward)
              (a, begin, end);
            });
}

void ActivationBackward(Context& context, const ActivationArgs& args,
                        const ActivationGrads& grads) {
  ForBlocks(context, args, grads,
            [](const ActivationArgs& a, const ActivationGrads& g, int64_t begin,
               int64_t end) {
              HWY_DYNAMIC_DISPATCH(Backward)(a, g, begin, end);
            });
}

}  // namespace headwise
#endif
