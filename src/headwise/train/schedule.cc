// Learning rates. Door: schedule.h.
#include "headwise/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace headwise {

double RateAt(const TrainConfig& config, int64_t step) {
  const double at = static_cast<double>(step + 1);
  const double warmup = static_cast<double>(config.warmup);
  if (at < warmup) return config.rate * at / warmup;
  if (config.schedule == RateSchedule::kInverseSqrt) {
    return config.rate * std::sqrt(std::max(warmup, 1.0) / at);
  }
  if (config.schedule == RateSchedule::kConstant) return config.rate;
  const double span = static_cast<double>(config.steps) - warmup;
  const double share = span > 0 ? std::min(1.0, (at - warmup) / span) : 1.0;
  const double fall = 0.5 * (1 + std::cos(std::numbers::pi * share));
  return config.rate * (config.final_rate + (1 - config.final_rate) * fall);
}

double HeadDropoutAt(const TrainConfig& config, int64_t step) {
  const double at = static_cast<double>(step);
  const double last = static_cast<double>(config.steps - 1);
  if (config.head_dropout_schedule == HeadDropoutSchedule::kConstant ||
      last <= 0) {
    return config.head_dropout;
  }
  const bool v = config.head_dropout_schedule == HeadDropoutSchedule::kV;
  const double turn =
      v ? std::min(static_cast<double>(config.warmup), last) : 0;
  const double share =
      at < turn ? 1 - at / turn : (at - turn) / std::max(last - turn, 1.0);
  return config.head_dropout * share;
}

}  // namespace headwise
