// mxfp4: 32 numbers of 4 bits and a power of two. Door: block_codecs.h.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#include "headwise/tensor/block_codecs.h"

namespace headwise {
namespace {

constexpr int64_t kNumbers = 32, kPairs = kNumbers / 2;
constexpr int64_t kFp4Bytes = 1 + kPairs;
constexpr float kMagnitudes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
// Between two neighbours; a number on it takes the even one.
constexpr float kMiddles[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5};

float ScaleOf(uint8_t exponent) {
  if (exponent == 255) return std::numeric_limits<float>::quiet_NaN();
  return std::ldexp(1.0f, exponent - 127);
}

float FromFp4(uint8_t bits) {
  const float magnitude = kMagnitudes[bits & 7];
  return (bits & 8) != 0 ? -magnitude : magnitude;
}

uint8_t ToFp4(float value) {
  const float magnitude = std::abs(value);
  const auto* middle =
      std::lower_bound(std::begin(kMiddles), std::end(kMiddles), magnitude);
  auto bits = static_cast<uint8_t>(middle - std::begin(kMiddles));
  const bool halfway = middle != std::end(kMiddles) && magnitude == *middle;
  if (halfway && bits % 2 == 1) ++bits;
  return std::signbit(value) ? bits | 8 : bits;
}

// e of a block with this largest magnitude.
uint8_t ExponentFor(float largest) {
  if (largest == 0) return 0;
  return static_cast<uint8_t>(std::max(0, std::ilogb(largest) - 2 + 127));
}

}  // namespace

void Fp4ToFloat(const std::byte* blocks, int64_t count, float* values) {
  for (int64_t first = 0; first < count; first += kNumbers) {
    uint8_t block[kFp4Bytes];
    std::memcpy(block, blocks, sizeof(block));
    blocks += sizeof(block);
    const float scale = ScaleOf(block[0]);
    for (int64_t i = 0; i < kPairs; ++i) {
      const uint8_t pair = block[1 + i];
      values[first + i] = scale * FromFp4(pair & 15);
      values[first + kPairs + i] = scale * FromFp4(pair >> 4);
    }
  }
}

void Fp4FromFloat(const float* values, int64_t count, std::byte* blocks) {
  for (int64_t first = 0; first < count; first += kNumbers) {
    float largest = 0;
    for (int64_t i = 0; i < kNumbers; ++i) {
      largest = std::max(largest, std::abs(values[first + i]));
    }
    uint8_t block[kFp4Bytes] = {ExponentFor(largest)};
    const int shift = 127 - block[0];
    for (int64_t i = 0; i < kPairs; ++i) {
      const uint8_t low = ToFp4(std::ldexp(values[first + i], shift));
      const uint8_t high = ToFp4(std::ldexp(values[first + kPairs + i], shift));
      block[1 + i] = static_cast<uint8_t>(low | high << 4);
    }
    std::memcpy(blocks, block, sizeof(block));
    blocks += sizeof(block);
  }
}

}  // namespace headwise
