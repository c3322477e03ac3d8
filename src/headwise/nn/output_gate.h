// A sigmoid gate on what heads put out, made of the layer's input x:
//
//   g = σ(x · W_g + b_g)
//
// One number a token and head, [T, H], or one a token and channel of a head,
// [T, H·E] (Qwen3-Next). The width of the projection says which.
#pragma once

#include <cstdint>
#include <utility>

#include "headwise/context.h"
#include "headwise/nn/linear.h"
#include "headwise/tensor/temp.h"

namespace headwise {

// A forward's results that its backward reads.
struct OutputGateSaved {
  Temp gate;  // g: f32 of heads, the type of x of channels
  // Gates of heads: g times the gates that choose them, [T, H]; absent: g.
  Temp product;
  Temp heads;  // of channels: [T, H·E] before the gate
};

class OutputGate {
 public:
  OutputGate() = default;
  explicit OutputGate(Linear projection) : projection_(std::move(projection)) {}

  explicit operator bool() const { return static_cast<bool>(projection_); }
  const Linear& projection() const { return projection_; }
  int64_t width() const { return projection_.out(); }

  // g [T, width] of x [T, d], in a type.
  Temp Forward(Context& context, ConstTensorView x, DType type) const;
  // g as Forward left it, dg [T, width] by it. Gradients of trainable weights
  // are added to, and the gate's part to dx [T, d].
  void Backward(Context& context, ConstTensorView x, ConstTensorView g,
                ConstTensorView dg, TensorView dx) const;

 private:
  Linear projection_;
};

}  // namespace headwise
