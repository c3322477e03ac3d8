// One step of AdamW (Loshchilov & Hutter 2019): Adam's moments, and a weight
// decay that does not pass through them.
//
//   m = β₁·m + (1 − β₁)·g     v = β₂·v + (1 − β₂)·g²
//   w = w − rate · (m̂ / (√v̂ + ε) + decay · w),  m̂ = m/(1 − β₁ᵗ), v̂ alike
#pragma once

#include <cstdint>

#include "headwise/context.h"
#include "headwise/tensor.h"

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

  friend bool operator==(const AdamWProblem&, const AdamWProblem&) = default;
};

// All [N], dense.
struct AdamWArgs {
  TensorView value = {};          // f32
  ConstTensorView gradient = {};  // of any type
  TensorView first = {};          // f32 m
  TensorView second = {};         // f32 v
};

// Throws Error(kInvalidArgument) naming the view that does not fit.
void AdamW(Context& context, const AdamWProblem& problem,
           const AdamWArgs& args);

}  // namespace headwise
