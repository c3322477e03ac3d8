// Norm. Door: norm.h.
#include "headwise/nn/norm.h"

namespace headwise {

Norm::Norm(NormKind kind, float epsilon, Parameter weight, Parameter bias)
    : kind_(kind),
      epsilon_(epsilon),
      width_(weight.value.shape[0]),
      weight_(ToF32(weight)) {
  if (bias) bias_ = ToF32(bias);
}

void Norm::Forward(Context& context, ConstTensorView x, TensorView y) const {
  NormForward(context, {kind_, x.shape[0], width_, epsilon_},
              {.x = x.As<float>(),
               .weight = weight_.As<float>(),
               .bias = bias_.As<float>(),
               .y = y.As<float>()});
}

void Norm::ForwardHeads(Context& context, TensorView x) const {
  NormForward(
      context, {kind_, x.shape[0], width_, epsilon_, x.shape[1], x.stride[0]},
      {.x = x.As<float>(), .weight = weight_.As<float>(), .y = x.As<float>()});
}

}  // namespace headwise
