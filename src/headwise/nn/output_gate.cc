// OutputGate. Door: output_gate.h.
#include "headwise/nn/output_gate.h"

#include "headwise/ops/activation/activation.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/tensor/slice.h"

namespace headwise {

// σ(z) = ½ + ½ · tanh(z / 2), in place.
Temp OutputGate::Forward(Context& context, ConstTensorView x,
                         DType type) const {
  const Shape shape = {x.shape[0], width()};
  Temp gate(context, x.type, shape);
  projection_.Forward(context, x, gate.view());
  if (type != x.type) {
    Temp converted(context, type, shape);
    Copy(context, gate.view(), converted.view());
    gate = std::move(converted);
  }
  const TensorView g = gate.view();
  Scale(context, 0.5f, g, g);
  ActivationForward(context, {Activation::kTanh}, {.x = g, .y = g});
  const Temp half(context, type, {1, 1});
  Fill(context, 0.5, half.view());
  AddScaled(context, Broadcast(ConstTensorView(half.view()), shape), 0.5f, g,
            g);
  return gate;
}

// ∂σ/∂z = g − g².
void OutputGate::Backward(Context& context, ConstTensorView x,
                          ConstTensorView g, ConstTensorView dg,
                          TensorView dx) const {
  const Shape shape = {g.shape[0], g.shape[1]};
  const Temp dz_memory(context, g.type, shape), squared(context, g.type, shape);
  const TensorView dz = dz_memory.view();
  Multiply(context, dg, g, dz);
  Multiply(context, dz, g, squared.view());
  AddScaled(context, dz, -1, squared.view(), dz);
  Temp converted;
  ConstTensorView own = dz;
  if (g.type != x.type) {
    converted = Temp(context, x.type, shape);
    Copy(context, dz, converted.view());
    own = converted.view();
  }
  projection_.Backward(context, x, own, dx, Store::kAccumulate);
}

}  // namespace headwise
