// Pointwise activations, forward and backward, plain and gated:
//   plain  y = f(x)          gated  y = f(x) · u   (SwiGLU and its kin)
#pragma once

#include <cstdint>

#include "headwise/context.h"
#include "headwise/tensor.h"

namespace headwise {

enum class Activation : uint8_t {
  kRelu,
  kGelu,      // x · Φ(x), with the error function
  kGeluTanh,  // x/2 · (1 + tanh(√(2/π)(x + 0.044715 x³)))
  kSilu,      // x · σ(x)
  kTanh,
  // gpt-oss: c · σ(1.702 c), c = min(x, 7); what stands in for u is clamp(u,
  // −7, 7) + 1.
  kClampedSilu,
};

inline constexpr double kClampedSiluLimit = 7, kClampedSiluSlope = 1.702;

struct ActivationProblem {
  Activation kind = Activation::kGelu;

  friend bool operator==(const ActivationProblem&,
                         const ActivationProblem&) = default;
};

// All [R, W] of one type, each with rows of its own stride and a last stride
// of 1.
struct ActivationArgs {
  ConstTensorView x = {};
  ConstTensorView up = {};  // null: plain
  TensorView y = {};        // may be x or up
};

// Throws Error(kInvalidArgument) naming the view that does not fit.
void ActivationForward(Context& context, const ActivationProblem& problem,
                       const ActivationArgs& args);

struct ActivationGrads {
  ConstTensorView dy = {};
  TensorView dx = {};   // overwritten; may be dy
  TensorView dup = {};  // overwritten; gated only
};

// args: x and up as in the forward call; y, which is written again, may be null
// and is not dy.
void ActivationBackward(Context& context, const ActivationProblem& problem,
                        const ActivationArgs& args,
                        const ActivationGrads& grads);

}  // namespace headwise
