// Rotary positions: in each head, the pair (x_i, x_{i + D/2}) turns by
// position · frequency_i. The backward is the same turn the other way.
#pragma once

#include <cstdint>
#include <vector>

#include "headwise/context.h"
#include "headwise/tensor.h"

namespace headwise {

enum class RopeScaling : uint8_t {
  kNone,
  kLinear,  // every frequency divided by factor
  kLlama3,  // low frequencies divided, high kept, a ramp between
};

struct RopeConfig {
  int64_t head_dim = 0;  // dimensions that turn; even
  double base = 10000;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1;
  double low_frequency_factor = 1;   // kLlama3
  double high_frequency_factor = 4;  // kLlama3
  int64_t original_context = 8192;   // kLlama3
};

// [head_dim / 2] radians a position.
std::vector<float> RopeFrequencies(const RopeConfig& config);

enum class RopeDirection : uint8_t { kForward, kBackward };

// Turns x [tokens, heads, ≥ head_dim] in place, the first
// 2·frequencies.size() dimensions of each head; positions [tokens].
void Rope(Context& context, const std::vector<float>& frequencies,
          const int32_t* positions, TensorView x, RopeDirection direction);

}  // namespace headwise
