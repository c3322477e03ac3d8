// Rotary positions. Door: rope.h.
#include "headwise/ops/rope/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/error.h"

namespace headwise {
namespace {

constexpr int64_t kTokensPerTask = 16;

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

void Rope(Context& context, const std::vector<float>& frequencies,
          const int32_t* positions, TensorView x, RopeDirection direction) {
  const int64_t tokens = x.shape[0], heads = x.shape[1];
  const int64_t half = static_cast<int64_t>(frequencies.size());
  const float sign = direction == RopeDirection::kForward ? 1.0f : -1.0f;
  const int64_t tasks = (tokens + kTokensPerTask - 1) / kTokensPerTask;
  context.pool().ParallelFor(tasks, [&](int64_t task, int) {
    std::vector<float> turn(2 * half);
    float* cosine = turn.data();
    float* sine = cosine + half;
    const int64_t end = std::min(tokens, (task + 1) * kTokensPerTask);
    for (int64_t t = task * kTokensPerTask; t < end; ++t) {
      for (int64_t i = 0; i < half; ++i) {
        const float angle = static_cast<float>(positions[t]) * frequencies[i];
        cosine[i] = std::cos(angle);
        sine[i] = sign * std::sin(angle);
      }
      for (int64_t h = 0; h < heads; ++h) {
        float* low = x.As<float>() + t * x.stride[0] + h * x.stride[1];
        float* high = low + half;
        for (int64_t i = 0; i < half; ++i) {
          const float a = low[i], b = high[i];
          low[i] = a * cosine[i] - b * sine[i];
          high[i] = b * cosine[i] + a * sine[i];
        }
      }
    }
  });
}

}  // namespace headwise
