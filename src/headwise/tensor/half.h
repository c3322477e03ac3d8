// bf16 and f16 as bits, with conversions that round to nearest even. Kernels
// have their own vector forms; this is the definition they must agree with.
#pragma once

#include <bit>
#include <cstdint>

namespace headwise {

inline float FromBf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

inline uint16_t ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return (bits >> 16) | 0x40;  // NaN
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

inline float FromF16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  // In f32's place the exponent is 112 too small. The product is exact, for
  // subnormals too, and without a branch, so that loops become vectors.
  const uint32_t small = static_cast<uint32_t>(bits & 0x7fff) << 13;
  const uint32_t value =
      std::bit_cast<uint32_t>(std::bit_cast<float>(small) * 0x1.0p112f);
  const bool infinite = small >= 0x0f800000;  // or NaN
  return std::bit_cast<float>(sign | (infinite ? small | 0x7f800000 : value));
}

inline uint16_t ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;   // NaN
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // ≥ 65520: ∞
  if (magnitude < 0x38800000) {                       // subnormal
    // Adding 0.5 puts the fraction's unit at 2^-24; the sum rounds for us.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return sign |
           static_cast<uint16_t>(std::bit_cast<uint32_t>(shifted) - 0x3f000000);
  }
  const uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
  return sign | static_cast<uint16_t>((rounded - 0x38000000) >> 13);
}

}  // namespace headwise
