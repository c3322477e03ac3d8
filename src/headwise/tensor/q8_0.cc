// q8_0: 32 integers of 8 bits and a scale. Door: block_codecs.h.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "headwise/tensor/block_codecs.h"
#include "headwise/tensor/half.h"

namespace headwise {
namespace {

static_assert(std::endian::native == std::endian::little);

struct Q8Block {
  uint16_t scale;
  int8_t values[32];
};
static_assert(sizeof(Q8Block) == 34);
constexpr int64_t kValues = 32;

}  // namespace

void Q8ToFloat(const std::byte* blocks, int64_t count, float* values) {
  for (int64_t first = 0; first < count; first += kValues) {
    Q8Block block;
    std::memcpy(&block, blocks, sizeof(block));
    blocks += sizeof(block);
    const float scale = FromF16(block.scale);
    for (int64_t i = 0; i < kValues; ++i) {
      values[first + i] = scale * static_cast<float>(block.values[i]);
    }
  }
}

void Q8FromFloat(const float* values, int64_t count, std::byte* blocks) {
  for (int64_t first = 0; first < count; first += kValues) {
    float largest = 0;
    for (int64_t i = 0; i < kValues; ++i) {
      largest = std::max(largest, std::abs(values[first + i]));
    }
    const float scale = largest / 127;
    const float inverse = scale > 0 ? 1 / scale : 0;
    Q8Block block = {ToF16(scale), {}};
    for (int64_t i = 0; i < kValues; ++i) {
      // Of numbers that are not finite the scale tells.
      const float level = std::round(values[first + i] * inverse);
      block.values[i] =
          std::abs(level) <= 127 ? static_cast<int8_t>(level) : int8_t{0};
    }
    std::memcpy(blocks, &block, sizeof(block));
    blocks += sizeof(block);
  }
}

}  // namespace headwise
