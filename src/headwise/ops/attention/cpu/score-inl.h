// From products q·k to log2 probabilities, for whatever vector width the
// enclosing file is compiled for (included once per target). Used by the
// backward and by the second passes.
//
// Scores are in base 2: s = log2e · z. A tile is [queries, kTileColumns keys].

// clang-format off
#if defined(HEADWISE_OPS_ATTENTION_CPU_SCORE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_OPS_ATTENTION_CPU_SCORE_INL_H_
#undef HEADWISE_OPS_ATTENTION_CPU_SCORE_INL_H_
#else
#define HEADWISE_OPS_ATTENTION_CPU_SCORE_INL_H_
#endif
// clang-format on

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "headwise/ops/attention/cpu/exp2-inl.h"
#include "headwise/ops/attention/cpu/score_rule.h"
#include "headwise/ops/matmul/cpu/tile-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// tanh of the argument y where s = 2·log2e·y. Absolute error 1.5e-7.
HWY_INLINE VF TanhOfDoubled(VF s) {
  const F32 d;
  const VF limit = hn::Set(d, 40.0f);  // tanh is 1 long before 2^40
  VF bounded = hn::IfThenElse(hn::Gt(s, limit), limit, s);
  bounded = hn::IfThenElse(hn::Lt(s, hn::Neg(limit)), hn::Neg(limit), bounded);
  const VF e = Exp2(bounded);
  const VF one = hn::Set(d, 1.0f);
  return hn::Div(hn::Sub(e, one), hn::Add(e, one));
}

// Σ_d a[d]·b[d] over `count` numbers.
HWY_INLINE float Dot(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b,
                     size_t count) {
  const F32 d;
  VF sum0 = hn::Zero(d), sum1 = hn::Zero(d);
  size_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    sum0 = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum0);
    sum1 = hn::MulAdd(hn::LoadU(d, a + i + kLanes),
                      hn::LoadU(d, b + i + kLanes), sum1);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

// Whether all of x[0 … count) are finite numbers.
HWY_INLINE bool AllFinite(const float* HWY_RESTRICT x, size_t count) {
  const F32 d;
  VF sum = hn::Zero(d);  // 0 · x is NaN for the others
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    sum = hn::MulAdd(hn::Zero(d), hn::LoadU(d, x + i), sum);
  }
  float rest = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; i < count; ++i) rest += 0.0f * x[i];
  return rest == 0.0f;
}

// bias · log2e of the query at position p for kTileColumns keys from j.
HWY_INLINE void RelativeBias(const ScoreRule& rule, int64_t p, int64_t j,
                             float* HWY_RESTRICT bias) {
  const int64_t first = j - p;  // the signed distance of the first key
  for (size_t c = 0; c < kTileColumns; ++c) {
    const int64_t distance =
        std::clamp(first + static_cast<int64_t>(c), -rule.reach, rule.reach);
    bias[c] = kLog2E * rule.table[distance + rule.reach];
  }
}

// One row of a tile: products s[kTileColumns] of query i with keys from j
// become scores, −∞ where i does not see the key. slope[kTileColumns] gets the
// soft cap's derivative and may be null.
HWY_INLINE void ScoreRow(const ScoreRule& rule, int64_t i, int64_t j,
                         float* HWY_RESTRICT s, float* HWY_RESTRICT slope) {
  const F32 d;
  const int64_t p = rule.sequence.PositionOf(i);
  HWY_ALIGN float table[kTileColumns];
  if (rule.bias == AttentionBias::kRelative) RelativeBias(rule, p, j, table);
  const KeyRange range = rule.Visible(i);
  const auto relative = [&](int64_t key) {
    return hn::Set(d, static_cast<float>(std::clamp<int64_t>(
                          key - j, 0, static_cast<int64_t>(kTileColumns))));
  };
  const VF sinks = relative(range.sinks);
  const VF begin = relative(range.begin);
  const VF end = relative(range.end);
  const VF distance = hn::Set(d, static_cast<float>(p - j));
  for (size_t c = 0; c < kTileColumns; c += kLanes) {
    const VF key = hn::Iota(d, static_cast<float>(c));
    VF x = hn::LoadU(d, s + c);
    if (rule.cap != 0) {
      const VF t = TanhOfDoubled(x);
      x = hn::Mul(t, hn::Set(d, rule.cap));
      if (slope != nullptr) {
        hn::StoreU(hn::NegMulAdd(t, t, hn::Set(d, 1.0f)), d, slope + c);
      }
    }
    if (rule.bias == AttentionBias::kAlibi) {
      x = hn::NegMulAdd(hn::Set(d, rule.slope), hn::Abs(hn::Sub(distance, key)),
                        x);
    } else if (rule.bias == AttentionBias::kRelative) {
      x = hn::Add(x, hn::Load(d, table + c));
    }
    const auto seen = hn::Or(hn::And(hn::Ge(key, begin), hn::Lt(key, end)),
                             hn::Lt(key, sinks));
    hn::StoreU(hn::IfThenElse(seen, x, hn::Set(d, kMinusInfinity)), d, s + c);
  }
}

// log2e · LSE of a row, +∞ for a row without any probability, so that
// 2^(s − it) is 0 there.
HWY_INLINE float RowShift(float lse) {
  return lse == kMinusInfinity ? -kMinusInfinity : lse * kLog2E;
}

// 2^(s − shift), 0 where masked (s = −∞) even if shift is NaN.
HWY_INLINE VF Probability(VF s, VF shift) {
  const F32 d;
  return hn::IfThenZeroElse(hn::Eq(s, hn::Set(d, kMinusInfinity)),
                            Exp2(hn::Sub(s, shift)));
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_OPS_ATTENTION_CPU_SCORE_INL_H_
