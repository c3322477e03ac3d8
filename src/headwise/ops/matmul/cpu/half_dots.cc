// f16 dot products on ARM with FEAT_FHM. Door: half_dots.h. Compiled for
// armv8.2-a+fp16fml; nothing here is shared with other files.
#include "headwise/ops/matmul/cpu/half_dots.h"

#include <arm_neon.h>
#include <sys/auxv.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

namespace headwise {
namespace {

constexpr uint64_t kHwcapFhm = uint64_t{1} << 23;  // of Linux's AT_HWCAP

// The processor's own prefetching runs not far enough ahead of these sums, nor
// from one 4 KiB page to the next: with it alone two threads read 46 GB/s of
// 52, with this 51. (Into L1 this far ahead: a third.)
constexpr size_t kAheadNumbers = (16 << 10) / sizeof(uint16_t);

float16x8_t Load(const uint16_t* p) {
  return vreinterpretq_f16_u16(vld1q_u16(p));
}

// The sums of one line. Both parts of x have their own: four chains a line, so
// that none waits for the one before.
struct Line {
  float32x4_t a, b, c, d;

  void Add(float16x8_t w, float16x8_t high, float16x8_t low) {
    a = vfmlalq_low_f16(a, w, high);
    b = vfmlalq_high_f16(b, w, high);
    c = vfmlalq_low_f16(c, w, low);
    d = vfmlalq_high_f16(d, w, low);
  }
  float32x4_t Sum() const {
    return vaddq_f32(vaddq_f32(a, b), vaddq_f32(c, d));
  }
};

// One group of four lines; w moves to the next. What lies `ahead` numbers
// further is fetched.
void DotGroup(const SplitRow& x, const uint16_t*& w, size_t ahead, size_t steps,
              float* sums) {
  const float32x4_t zero = vdupq_n_f32(0);
  Line p = {zero, zero, zero, zero}, q = p, r = p, s = p;
  const uint16_t* high = x.high;
  const uint16_t* low = x.low;
  for (size_t i = 0; i < steps; ++i) {
    const float16x8_t h = Load(high), l = Load(low);
    __builtin_prefetch(w + ahead, 0, 2);
    p.Add(Load(w), h, l);
    q.Add(Load(w + kHalfStep), h, l);
    r.Add(Load(w + 2 * kHalfStep), h, l);
    s.Add(Load(w + 3 * kHalfStep), h, l);
    w += kHalfLines * kHalfStep;
    high += kHalfStep;
    low += kHalfStep;
  }
  const float32x4_t all =
      vpaddq_f32(vpaddq_f32(p.Sum(), q.Sum()), vpaddq_f32(r.Sum(), s.Sum()));
  vst1q_f32(sums, vmulq_n_f32(all, x.scale));
}

}  // namespace

bool HasHalfDots() {
  static const bool has = [] {
    const char* cap = std::getenv("HEADWISE_MAX_ISA");
    return (getauxval(AT_HWCAP) & kHwcapFhm) != 0 &&
           (cap == nullptr || std::string_view(cap) != "scalar");
  }();
  return has;
}

bool SplitRow::Set(const float* x, size_t k, uint16_t* memory) {
  // The largest number of x; vmaxq keeps NaN.
  const auto above = [&](float32x4_t most4, size_t i) {
    return vmaxq_f32(most4, vabsq_f32(vld1q_f32(x + i)));
  };
  float32x4_t p = vdupq_n_f32(0), q = p, r = p, s = p;
  size_t done = 0;
  for (; done + 16 <= k; done += 16) {
    p = above(p, done);
    q = above(q, done + 4);
    r = above(r, done + 8);
    s = above(s, done + 12);
  }
  for (; done + 4 <= k; done += 4) p = above(p, done);
  const size_t whole = done;
  for (; done < k; ++done) p = vmaxq_f32(p, vdupq_n_f32(std::abs(x[done])));
  const float most = vmaxvq_f32(vmaxq_f32(vmaxq_f32(p, q), vmaxq_f32(r, s)));
  if (!std::isfinite(most)) return false;
  // The largest number gets the exponent 2^14: below f16's end, and far above
  // its smallest, where the low parts are.
  int exponent = 0;
  std::frexp(most, &exponent);
  exponent = most == 0 ? 0 : exponent - 15;
  if (exponent < -100) exponent = -100;
  scale = std::ldexp(1.0f, exponent);
  const float inverse = std::ldexp(1.0f, -exponent);
  const size_t padded = MemoryOf(k) / 2;
  uint16_t* upper_part = memory;
  uint16_t* lower_part = memory + padded;
  high = upper_part;
  low = lower_part;
  const auto put = [&](size_t i, float32x4_t four) {
    const float32x4_t scaled = vmulq_n_f32(four, inverse);
    const float16x4_t upper = vcvt_f16_f32(scaled);
    const float16x4_t lower =
        vcvt_f16_f32(vsubq_f32(scaled, vcvt_f32_f16(upper)));
    vst1_u16(upper_part + i, vreinterpret_u16_f16(upper));
    vst1_u16(lower_part + i, vreinterpret_u16_f16(lower));
  };
  for (size_t i = 0; i < whole; i += 4) put(i, vld1q_f32(x + i));
  float rest[4] = {};
  std::copy(x + whole, x + k, rest);
  for (size_t i = whole; i < padded; i += 4) {
    put(i, i < k ? vld1q_f32(rest) : vdupq_n_f32(0));
  }
  return true;
}

void DotHalf(const SplitRow& x, const HalfGroups& groups, float* sums) {
  const uint16_t* w = groups.data;
  const size_t group = groups.steps * kHalfLines * kHalfStep;
  for (size_t g = 0; g < groups.count; ++g) {
    // Not past the end: a prefetch outside mapped memory takes 14 ns.
    const size_t left = (groups.following - g - 1) * group;
    DotGroup(x, w, std::min(kAheadNumbers, left), groups.steps,
             sums + g * kHalfLines);
  }
}

}  // namespace headwise
