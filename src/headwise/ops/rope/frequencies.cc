// How fast each pair turns. Door: rope.h.
#include "headwise/ops/rope/rope.h"

#include <cmath>
#include <numbers>
#include <string>

#include "headwise/error.h"

namespace headwise {
namespace {

// Llama 3: wavelengths longer than the original context / low factor are
// stretched by `factor`, those shorter than context / high factor kept.
double Llama3(const RopeConfig& c, double frequency) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const double context = static_cast<double>(c.original_context);
  if (wavelength > context / c.low_frequency_factor) {
    return frequency / c.factor;
  }
  if (wavelength < context / c.high_frequency_factor) return frequency;
  const double smooth = (context / wavelength - c.low_frequency_factor) /
                        (c.high_frequency_factor - c.low_frequency_factor);
  return (1 - smooth) * frequency / c.factor + smooth * frequency;
}

}  // namespace

std::vector<float> RopeFrequencies(const RopeConfig& config) {
  if (config.head_dim <= 0 || config.head_dim % 2 != 0) {
    throw Error(ErrorCode::kInvalidArgument,
                {"rope", "an even number of rotary dimensions",
                 std::to_string(config.head_dim), ""});
  }
  std::vector<float> frequencies(config.head_dim / 2);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    double frequency =
        std::pow(config.base, -2.0 * static_cast<double>(i) /
                                  static_cast<double>(config.head_dim));
    if (config.scaling == RopeScaling::kLinear) frequency /= config.factor;
    if (config.scaling == RopeScaling::kLlama3) {
      frequency = Llama3(config, frequency);
    }
    frequencies[i] = static_cast<float>(frequency);
  }
  return frequencies;
}

}  // namespace headwise
