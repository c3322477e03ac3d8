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
    const double last = static_cast<double>(config.dims()) - 1;
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
    return static_cast<double>(config.dims()) *
           std::log(context / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(config.base));
  }

  double factor_, begin_, end_;
};

// Dynamic: as if the context had always been `length` positions.
double BaseOf(const RopeConfig& c, int64_t length) {
  if (c.scaling != RopeScaling::kDynamic) return c.base;
  const double stretch = static_cast<double>(RopeLength(c, length)) /
                         static_cast<double>(c.original_context);
  const double dims = static_cast<double>(c.dims());
  return c.base *
         std::pow(c.factor * stretch - (c.factor - 1), dims / (dims - 2));
}

void Check(const RopeConfig& c) {
  if (c.original_context < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                {"rope", "an original context of at least 1 position",
                 std::to_string(c.original_context), ""});
  }
  const int64_t least = c.scaling == RopeScaling::kDynamic ? 4 : 2;
  const int64_t dims = c.dims();
  if (dims < least || dims % 2 != 0 || dims > c.head_dim) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"rope",
         "an even number of rotary dimensions from " + std::to_string(least) +
             " to the head's " + std::to_string(c.head_dim),
         std::to_string(dims), ""});
  }
  if (c.scaling == RopeScaling::kProportional && c.head_dim % 2 != 0) {
    throw Error(ErrorCode::kInvalidArgument,
                {"rope", "heads of an even width for proportional positions",
                 std::to_string(c.head_dim), ""});
  }
  if (c.scaling != RopeScaling::kLongrope) return;
  for (const auto* factors : {&c.short_factors, &c.long_factors}) {
    if (std::ssize(*factors) == dims / 2) continue;
    throw Error(ErrorCode::kInvalidArgument,
                {"rope",
                 std::to_string(dims / 2) +
                     " short and long factors, one for each pair that turns",
                 std::to_string(factors->size()), ""});
  }
}

}  // namespace

double YarnScale(double factor, double weight) {
  return factor > 1 ? 0.1 * weight * std::log(factor) + 1 : 1;
}

double LongropeScale(double factor, int64_t original_context) {
  if (factor <= 1) return 1;
  return std::sqrt(1 + std::log(factor) /
                           std::log(static_cast<double>(original_context)));
}

int64_t RopeLength(const RopeConfig& config, int64_t length) {
  const int64_t original = config.original_context;
  if (config.scaling == RopeScaling::kDynamic) {
    return std::max(length, original);
  }
  if (config.scaling != RopeScaling::kLongrope) return 0;
  return length > original ? original + 1 : original;
}

std::vector<float> RopeFrequencies(const RopeConfig& config, int64_t length) {
  Check(config);
  const bool proportional = config.scaling == RopeScaling::kProportional;
  const bool longrope = config.scaling == RopeScaling::kLongrope;
  const auto pairs = static_cast<size_t>(config.dims() / 2);
  const int64_t width = proportional ? config.head_dim : config.dims();
  const double base = BaseOf(config, length);
  const std::vector<double>& factors = length > config.original_context
                                           ? config.long_factors
                                           : config.short_factors;
  std::optional<Yarn> yarn;
  if (config.scaling == RopeScaling::kYarn) yarn.emplace(config);
  std::vector<float> frequencies(width / 2);
  for (size_t i = 0; i < pairs; ++i) {
    double frequency = std::pow(
        base, -2.0 * static_cast<double>(i) / static_cast<double>(width));
    if (config.scaling == RopeScaling::kLinear || proportional) {
      frequency /= config.factor;
    }
    if (config.scaling == RopeScaling::kLlama3) {
      frequency = Llama3(config, frequency);
    }
    if (yarn) frequency = (*yarn)(frequency, static_cast<double>(i));
    if (longrope) frequency /= factors[i];
    frequencies[i] = static_cast<float>(frequency);
  }
  return frequencies;
}

}  // namespace headwise
