// Pointwise activations, forward and backward, plain and gated:
//   plain  y = f(x)          gated  y = f(x) · u   (SwiGLU and its kin)
#pragma once

#include <cstdint>

#include "headwise/context.h"

namespace headwise {

enum class Activation : uint8_t {
  kRelu,
  kGelu,      // x · Φ(x), with the error function
  kGeluTanh,  // x/2 · (1 + tanh(√(2/π)(x + 0.044715 x³)))
  kSilu,      // x · σ(x)
  kTanh,
};

struct ActivationArgs {
  Activation kind = Activation::kGelu;
  int64_t count = 0;
  const float* x = nullptr;   // [count]
  const float* up = nullptr;  // [count]; null: plain
  float* y = nullptr;         // [count]; may be x or up where all is dense
  // x, up and their gradients as rows of `width` numbers, `stride` apart (y and
  // dy are dense); 0: dense too.
  int64_t width = 0;
  int64_t stride = 0;
};

void ActivationForward(Context& context, const ActivationArgs& args);

struct ActivationGrads {
  const float* dy = nullptr;  // [count]
  float* dx = nullptr;        // [count]; overwritten; may be dy
  float* dup = nullptr;       // [count]; overwritten; gated only
};

// args: kind, count, x, up and their rows as in the forward call; y, which is
// written again, may be null and is not dy.
void ActivationBackward(Context& context, const ActivationArgs& args,
                        const ActivationGrads& grads);

}  // namespace headwise
