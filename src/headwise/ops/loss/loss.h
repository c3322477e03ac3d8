// Cross-entropy of rows of logits against target classes, with label
// smoothing, and its gradient.
//
//   loss_t = LSE(z_t) − (1 − s) · z_t[target] − s/C · Σ_c z_t[c]
#pragma once

#include <cstdint>

#include "headwise/context.h"

namespace headwise {

// A row with this target has no loss and no gradient.
inline constexpr int32_t kIgnoreTarget = -100;

struct CrossEntropyProblem {
  int64_t rows = 0;
  int64_t classes = 0;
  float smoothing = 0;
};

struct CrossEntropyArgs {
  const float* logits = nullptr;     // [rows, classes]
  const int32_t* targets = nullptr;  // [rows]; kIgnoreTarget: skipped
  float* losses = nullptr;           // [rows], nats; skipped rows get 0
  // Gradient of scale · Σ losses, [rows, classes]; null: not wanted; may be
  // logits (they are overwritten then).
  float* dlogits = nullptr;
  float scale = 1;
};

// Throws Error(kInvalidArgument) naming the first target outside the classes.
void CrossEntropy(Context& context, const CrossEntropyProblem& problem,
                  const CrossEntropyArgs& args);

}  // namespace headwise
