// Sampler. Door: sampler.h.
#include "headwise/runtime/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "headwise/error.h"

namespace headwise {

void RequireFiniteLogits(double value) {
  if (std::isfinite(value)) return;
  throw Error(ErrorCode::kInvalidArgument,
              {"generate", "finite logits", std::to_string(value),
               "are the model's weights whole?"});
}

Sampler::Sampler(const GenerateJob& job)
    : temperature_(job.temperature),
      top_k_(job.top_k),
      top_p_(job.top_p),
      rng_(job.seed) {}

int32_t Sampler::Next(std::span<const float> logits) {
  const auto best = std::max_element(logits.begin(), logits.end());
  RequireFiniteLogits(*best);
  if (temperature_ == 0) {
    return static_cast<int32_t>(best - logits.begin());
  }
  order_.resize(logits.size());
  std::iota(order_.begin(), order_.end(), 0);
  // Likeliest first, equal ones by id: one order on every machine.
  auto likelier = [&](int32_t a, int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  const size_t all = order_.size();
  const size_t most = top_k_ > 0 ? std::min<size_t>(top_k_, all) : all;
  if (most < all || top_p_ < 1) {  // else no order is needed
    std::partial_sort(order_.begin(), order_.begin() + most, order_.end(),
                      likelier);
  }
  order_.resize(most);
  weights_.clear();
  double total = 0;
  for (const int32_t id : order_) {
    weights_.push_back(std::exp((logits[id] - *best) / temperature_));
    total += weights_.back();
  }
  RequireFiniteLogits(total);
  double held = 0;
  size_t count = 0;
  while (count < weights_.size() && held < top_p_ * total) {
    held += weights_[count++];
  }
  double at = rng_.Uniform() * held;
  for (size_t i = 0; i < count; ++i) {
    at -= weights_[i];
    if (at < 0) return order_[i];
  }
  return order_[count - 1];
}

}  // namespace headwise
