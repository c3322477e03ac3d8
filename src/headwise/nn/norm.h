// A normalisation with its weights. Door to ops/norm for layers.
#pragma once

#include "headwise/context.h"
#include "headwise/nn/parameter.h"
#include "headwise/ops/norm/norm.h"

namespace headwise {

class Norm {
 public:
  Norm() = default;
  // bias may be absent.
  Norm(NormKind kind, float epsilon, Parameter weight, Parameter bias);

  explicit operator bool() const { return width_ > 0; }
  int64_t width() const { return width_; }
  float epsilon() const { return epsilon_; }

  // x, y: [rows, width] f32; y may be x.
  void Forward(Context& context, ConstTensorView x, TensorView y) const;
  // In place on every head of x [tokens, heads, width], any token stride.
  void ForwardHeads(Context& context, TensorView x) const;

 private:
  NormKind kind_ = NormKind::kLayer;
  float epsilon_ = 1e-5f;
  int64_t width_ = 0;
  Tensor weight_;
  Tensor bias_;
};

}  // namespace headwise
