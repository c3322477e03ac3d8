// 2^x over vectors, for whatever vector width the enclosing file is compiled
// for (included once per target). Used by the forward, the backward and the
// second passes.

// clang-format off
#if defined(HEADWISE_OPS_ATTENTION_CPU_EXP2_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_OPS_ATTENTION_CPU_EXP2_INL_H_
#undef HEADWISE_OPS_ATTENTION_CPU_EXP2_INL_H_
#else
#define HEADWISE_OPS_ATTENTION_CPU_EXP2_INL_H_
#endif
// clang-format on

#include <cstddef>

#include "headwise/ops/matmul/cpu/tile-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// The larger one, and NaN where x is.
HWY_INLINE VF AtLeast(VF low, VF x) {
#if HWY_TARGET == HWY_NEON
  return VF(vmaxq_f32(low.raw, x.raw));
#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_SSSE3
  return hn::Max(low, x);  // MAXPS gives its second operand then
#else
  return hn::IfThenElse(hn::Lt(x, low), low, x);
#endif
}

// Below this, e is taken as 2^-126: the exponent's end, and nothing beside 1.
inline constexpr float kLowest = -126.0f;

// Coefficients of 2^f on [−½, ½], relative error 1.04e-7, each over a whole
// vector.
struct alignas(64) Exp2Coefficients {
  float c[5][kLanes];
  constexpr Exp2Coefficients() : c() {
    constexpr float kValues[5] = {9.6716979e-3f, 5.5508930e-2f, 0.24022238f,
                                  0.69314686f, 1.0f};
    for (int i = 0; i < 5; ++i) {
      for (size_t lane = 0; lane < kLanes; ++lane) c[i][lane] = kValues[i];
    }
  }
};
inline constexpr Exp2Coefficients kExp2Coefficients;

// Read from memory at each use: an FMA overwrites its addend, so that one kept
// in a register would first be copied, at the price of an arithmetic slot;
// loads have slots to spare. The asm hides that it is always the same address.
HWY_INLINE VF Coefficient(int i) {
  const Exp2Coefficients* p = &kExp2Coefficients;
  asm volatile("" : "+r"(p));
  return hn::Load(F32(), p->c[i]);
}

// Several vectors worked on side by side: a chain of operations as long as an
// exponential's leaves the units idle unless more of them run at one time than
// the processor finds by itself.
struct Eight {
  VF v0, v1, v2, v3, v4, v5, v6, v7;
};
template <typename F>
HWY_INLINE Eight Map(const Eight& a, const F& f) {
  return {f(a.v0), f(a.v1), f(a.v2), f(a.v3),
          f(a.v4), f(a.v5), f(a.v6), f(a.v7)};
}
template <typename F>
HWY_INLINE Eight Map(const Eight& a, const Eight& b, const F& f) {
  return {f(a.v0, b.v0), f(a.v1, b.v1), f(a.v2, b.v2), f(a.v3, b.v3),
          f(a.v4, b.v4), f(a.v5, b.v5), f(a.v6, b.v6), f(a.v7, b.v7)};
}
struct One {
  VF v;
};
template <typename F>
HWY_INLINE One Map(const One& a, const F& f) {
  return {f(a.v)};
}
template <typename F>
HWY_INLINE One Map(const One& a, const One& b, const F& f) {
  return {f(a.v, b.v)};
}

// 2^x for kLowest ≤ x ≤ 127, NaN for NaN. Vectors: Eight or One.
template <typename Vectors>
HWY_INLINE Vectors Exp2Bounded(const Vectors& x) {
  const F32 d;
  const hn::RebindToUnsigned<F32> du;
  // Adding 1.5 · 2^23 + 127 rounds to an integer and leaves the biased exponent
  // in the lowest bits.
  const VF magic = hn::Set(d, 12582912.0f + 127.0f);
  const Vectors rounded =
      Map(x, [&](VF v) HWY_ATTR { return hn::Add(v, magic); });
  const Vectors f = Map(x, rounded, [&](VF v, VF r) HWY_ATTR {
    return hn::Sub(v, hn::Sub(r, magic));
  });
  const VF c5 = hn::Set(d, 1.32186725e-3f);
  const auto step = [&](const Vectors& y, int i) HWY_ATTR {
    return Map(y, f, [&](VF a, VF b) HWY_ATTR {
      return hn::MulAdd(a, b, Coefficient(i));
    });
  };
  Vectors y =
      Map(f, [&](VF v) HWY_ATTR { return hn::MulAdd(c5, v, Coefficient(0)); });
  y = step(step(step(step(y, 1), 2), 3), 4);
  return Map(y, rounded, [&](VF a, VF r) HWY_ATTR {
    return hn::Mul(a, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(du, r))));
  });
}
HWY_INLINE VF Exp2Bounded(VF x) { return Exp2Bounded(One{x}).v; }

// 2^x for any x ≤ 127, relative error 2e-7; 0 below 2^-126; NaN stays NaN.
HWY_INLINE VF Exp2(VF x) {
  const VF low = hn::Set(F32(), kLowest);
  return hn::IfThenZeroElse(hn::Lt(x, low), Exp2Bounded(AtLeast(low, x)));
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_OPS_ATTENTION_CPU_EXP2_INL_H_
