// Choosing the next token from logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/generate.h"

namespace headwise {

// value: the largest logit, or a sum that all of them go into. Throws
// Error(kInvalidArgument) for NaN and ∞, which leave no choice.
void RequireFiniteLogits(double value);

class Sampler {
 public:
  // By the job's temperature, top_k, top_p and seed.
  explicit Sampler(const GenerateJob& job);

  // Throws as RequireFiniteLogits does.
  int32_t Next(std::span<const float> logits);

 private:
  double temperature_;
  int64_t top_k_;
  double top_p_;
  Rng rng_;
  std::vector<int32_t> order_;
  std::vector<double> weights_;
};

}  // namespace headwise
