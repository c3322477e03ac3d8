// How fast each pair turns. Door: rope.h.
#include "headwise/ops/rope/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
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

// Yarn: pairs before the ramp are kept, those behind it divided. A pair's turns
// over the original context fall with its number: `PairOf` is the inverse.
class Yarn {
 public:
  explicit Yarn(const RopeConfig& config) : factor_(config.factor) {
    const double last = static_cast<double>(config.head_dim) - 1;
    double begin = PairOf(config, config.kept_turns);
    double end = PairOf(config, config.divided_turns);
    if (config.whole_pairs) begin = std::floor(begin), end = std::ceil(end);
    begin_ = std::max(begin, 0.0);
    end_ = std::min(end, last);
    if (begin_ == end_) end_ += 0.001;  // as transformers has it
  }

  double operator()(double frequency, double pair) const {
    const double divided =
        std::clamp((pair - begin_) / (end_ - begin_), 0.0, 1.0);
    return frequency / factor_ * divided + frequency * (1 - divided);
  }

 private:
  static double PairOf(const RopeConfig& config, double turns) {
    const double context = static_cast<double>(config.original_context);
    return static_cast<double>(config.head_dim) *
           std::log(context / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(config.base));
  }

  double factor_, begin_, end_;
};

}  // namespace

double YarnScale(double factor, double weight) {
  return factor > 1 ? 0.1 * weight * std::log(factor) + 1 : 1;
}

std::vector<float> RopeFrequencies(const RopeConfig& config) {
  if (config.head_dim <= 0 || config.head_dim % 2 != 0) {
    throw Error(ErrorCode::kInvalidArgument,
                {"rope", "an even number of rotary dimensions",
                 std::to_string(config.head_dim), ""});
  }
  std::optional<Yarn> yarn;
  if (config.scaling == RopeScaling::kYarn) yarn.emplace(config);
  std::vector<float> frequencies(config.head_dim / 2);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    double frequency =
        std::pow(config.base, -2.0 * static_cast<double>(i) /
                                  static_cast<double>(config.head_dim));
    if (config.scaling == RopeScaling::kLinear) frequency /= config.factor;
    if (config.scaling == RopeScaling::kLlama3) {
      frequency = Llama3(config, frequency);
    }
    if (yarn) frequency = (*yarn)(frequency, static_cast<double>(i));
    frequencies[i] = static_cast<float>(frequency);
  }
  return frequencies;
}

}  // namespace headwise
