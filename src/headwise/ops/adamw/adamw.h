// One step of AdamW (Loshchilov & Hutter 2019): Adam's moments, and a weight
// decay that does not pass through them.
//
//   m = β₁·m + (1 − β₁)·g     v = β₂·v + (1 − β₂)·g²
//   w = w − rate · (m̂ / (√v̂ + ε) + decay · w),  m̂ = m/(1 − β₁ᵗ), v̂ alike
#pragma once

#include <cstdint>
#include <span>

#include "headwise/context.h"

namespace headwise {

struct AdamWProblem {
  int64_t step = 1;  // t, from 1
  float rate = 1e-3f;
  float beta1 = 0.9f;
  float beta2 = 0.95f;
  float epsilon = 1e-8f;
  float decay = 0;
  // Gradients are multiplied with it first: clipping.
  float gradient_scale = 1;
};

struct AdamWArgs {
  int64_t count = 0;
  float* value = nullptr;           // [count]
  const float* gradient = nullptr;  // [count]
  float* first = nullptr;           // [count] m
  float* second = nullptr;          // [count] v
};

void AdamW(Context& context, const AdamWProblem& problem,
           const AdamWArgs& args);

// Σ x², in double, the same at any thread count.
double SumOfSquares(Context& context, std::span<const float> x);

}  // namespace headwise
