// A normalisation with its weights. Door to ops/norm for layers.
#pragma once

#include "headwise/context.h"
#include "headwise/nn/parameter.h"
#include "headwise/ops/norm/norm.h"
#include "headwise/tensor/temp.h"

namespace headwise {

// What a backward needs of a forward besides its input: one value a row (or
// head of a row).
struct NormSaved {
  Temp mean;
  Temp scale;
};

class Norm {
 public:
  Norm() = default;
  // bias may be absent. Throws Error(kCorrupt) for an epsilon that makes no
  // norm: below 0, from 1 on, or no number.
  Norm(NormKind kind, float epsilon, Parameter weight, Parameter bias);

  explicit operator bool() const { return width_ > 0; }
  int64_t width() const { return width_; }
  float epsilon() const { return epsilon_; }
  // [width]
  const float* weight() const { return weight_.As<float>(); }
  // As the checkpoint holds them; the bias may be absent.
  const Parameter& weight_parameter() const { return weight_parameter_; }
  const Parameter& bias_parameter() const { return bias_parameter_; }

  // x, y: [rows, width] f32; y may be x. saved: for Backward; may be null.
  void Forward(Context& context, ConstTensorView x, TensorView y,
               NormSaved* saved = nullptr) const;
  // In place on every head of x [tokens, heads, width], any token stride.
  void ForwardHeads(Context& context, TensorView x,
                    NormSaved* saved = nullptr) const;

  // x [rows, width] as before the forward; dx is overwritten and may be dy.
  void Backward(Context& context, ConstTensorView x, const NormSaved& saved,
                ConstTensorView dy, TensorView dx) const;
  // In place on dx [tokens, heads, width]; x as before the forward, of the
  // same strides.
  void BackwardHeads(Context& context, ConstTensorView x,
                     const NormSaved& saved, TensorView dx) const;

 private:
  // Weights change while they are trained: then they are read where they lie.
  static ConstTensorView Values(const Parameter& parameter,
                                const Tensor& copy) {
    return parameter.trainable() ? parameter.value : copy.view();
  }

  NormKind kind_ = NormKind::kLayer;
  float epsilon_ = 1e-5f;
  int64_t width_ = 0;
  Parameter weight_parameter_;
  Parameter bias_parameter_;
  Tensor weight_;
  Tensor bias_;
};

}  // namespace headwise
