// Choosing the next token from logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/base/rng.h"

namespace headwise {

struct SamplerOptions {
  // 0: always the likeliest. Higher: flatter, more varied.
  double temperature = 0;
  int64_t top_k = 0;  // 0: all; else only the k likeliest
  double top_p = 1;   // the fewest likeliest tokens that hold this much
  uint64_t seed = 0;

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("temperature", self.temperature,
          "0: the likeliest token; higher: more varied");
    visit("top-k", self.top_k, "sample among the k likeliest; 0: all");
    visit("top-p", self.top_p,
          "sample among the likeliest that hold this much probability");
    visit("seed", self.seed, "same seed, same text");
  }
};

// value: the largest logit, or a sum that all of them go into. Throws
// Error(kInvalidArgument) for NaN and ∞, which leave no choice.
void RequireFiniteLogits(double value);

class Sampler {
 public:
  // Throws Error(kInvalidArgument) for values outside their range.
  explicit Sampler(const SamplerOptions& options);

  // Throws as RequireFiniteLogits does.
  int32_t Next(std::span<const float> logits);

 private:
  SamplerOptions options_;
  Rng rng_;
  std::vector<int32_t> order_;
  std::vector<double> weights_;
};

}  // namespace headwise
