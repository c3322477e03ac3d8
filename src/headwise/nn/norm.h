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
  // Multiplies by weight + offset (Gemma's is 1); bias may be absent. Throws
  // Error(kCorrupt) for an epsilon that makes no norm: below 0, from 1 on, or
  // no number.
  Norm(NormKind kind, float epsilon, Parameter weight, Parameter bias,
       float offset = 0);
  // Without weights.
  Norm(NormKind kind, float epsilon, int64_t width);

  explicit operator bool() const { return width_ > 0; }
  int64_t width() const { return width_; }
  NormKind kind() const { return kind_; }
  float epsilon() const { return epsilon_; }
  float offset() const { return offset_; }
  // What it multiplies by, f32 [width] on the host: ones without weights.
  // Throws Error(kCorrupt) for numbers that are not finite.
  Tensor Gain(Context& context) const;
  // As the checkpoint holds them; both may be absent.
  const Parameter& weight_parameter() const { return weight_.parameter(); }
  const Parameter& bias_parameter() const { return bias_.parameter(); }

  // x, y: [rows, width]; y may be x. saved: for Backward; may be null. kept:
  // gets a copy of x, where it is given.
  void Forward(Context& context, ConstTensorView x, TensorView y,
               NormSaved* saved = nullptr, TensorView kept = {}) const;
  // In place on every head of x [tokens, heads, width], any token stride.
  void ForwardHeads(Context& context, TensorView x,
                    NormSaved* saved = nullptr) const;

  // x [rows, width] as before the forward; dx is overwritten and may be dy.
  // added, where it is given, is added to dx, and may be dx.
  void Backward(Context& context, ConstTensorView x, const NormSaved& saved,
                ConstTensorView dy, TensorView dx,
                ConstTensorView added = {}) const;
  // In place on dx [tokens, heads, width]; x as before the forward, of the
  // same strides.
  void BackwardHeads(Context& context, ConstTensorView x,
                     const NormSaved& saved, TensorView dx) const;

 private:
  void RequireEpsilon() const;
  // f32 [width] on the context's device, or null; `made` keeps what was made.
  ConstTensorView Factors(Context& context, Temp& made) const;

  NormKind kind_ = NormKind::kLayer;
  float epsilon_ = 1e-5f;
  float offset_ = 0;
  int64_t width_ = 0;
  Values weight_;
  Values bias_;
};

}  // namespace headwise
