// The feed-forward half of a block: down(f(up(x))), or gated
// down(f(gate(x)) · up(x)).
#pragma once

#include <string>

#include "headwise/context.h"
#include "headwise/nn/linear.h"
#include "headwise/ops/activation/activation.h"

namespace headwise {

class Mlp {
 public:
  Mlp() = default;
  // gate may be absent.
  Mlp(Activation activation, Linear gate, Linear up, Linear down);

  int64_t hidden() const { return up_.out(); }
  bool gated() const { return static_cast<bool>(gate_); }
  Activation activation() const { return activation_; }

  // x [rows, d]; y [rows, d] overwritten or added to. Rows pass in blocks, so
  // that the hidden layer of a long text is never held whole.
  void Forward(Context& context, ConstTensorView x, TensorView y,
               Store store) const;

 private:
  Activation activation_ = Activation::kGelu;
  Linear gate_;
  Linear up_;
  Linear down_;
};

}  // namespace headwise
