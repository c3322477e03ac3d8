// Cross-entropy of rows of logits against target classes, with label
// smoothing, and its gradient.
//
//   loss_r = LSE(z_r) − (1 − s) · z_r[target] − s/C · Σ_c z_r[c]
#pragma once

#include <cstdint>

#include "headwise/context.h"
#include "headwise/tensor.h"

namespace headwise {

// A row with this target has no loss and no gradient.
inline constexpr int32_t kIgnoreTarget = -100;

struct CrossEntropyProblem {
  float smoothing = 0;
  float scale = 1;  // of the gradient

  friend bool operator==(const CrossEntropyProblem&,
                         const CrossEntropyProblem&) = default;
};

// Letters in shapes: R rows, C classes. Rows of logits have any stride, and a
// last stride of 1.
struct CrossEntropyArgs {
  ConstTensorView logits = {};   // [R, C]
  ConstTensorView targets = {};  // i32 or i64 [R]; kIgnoreTarget: skipped
  TensorView losses = {};        // f32 [R], nats; skipped rows get 0
  // Gradient of scale · Σ losses, as logits; null: not wanted; may be logits
  // (they are overwritten then).
  TensorView dlogits = {};
};

// Throws Error(kInvalidArgument) naming the view that does not fit, or the
// first target outside the classes where targets are in host memory. On a
// device such a row's loss and gradient are NaN.
void CrossEntropy(Context& context, const CrossEntropyProblem& problem,
                  const CrossEntropyArgs& args);

}  // namespace headwise
