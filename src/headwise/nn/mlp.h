// The feed-forward half of a block: down(f(up(x))), or gated
// down(f(gate(x)) · up(x)).
#pragma once

#include <string>

#include "headwise/backend/cpu/workspace.h"
#include "headwise/context.h"
#include "headwise/nn/linear.h"
#include "headwise/ops/activation/activation.h"

namespace headwise {

// What a backward needs of a forward besides its input: the hidden layer
// before the activation, [rows, hidden].
struct MlpSaved {
  Scratch up;
  Scratch gate;
};

class Mlp {
 public:
  Mlp() = default;
  // gate may be absent.
  Mlp(Activation activation, Linear gate, Linear up, Linear down);

  int64_t hidden() const { return up_.out(); }
  bool gated() const { return static_cast<bool>(gate_); }
  Activation activation() const { return activation_; }
  const Linear& gate() const { return gate_; }
  const Linear& up() const { return up_; }
  const Linear& down() const { return down_; }

  // x [rows, d]; y [rows, d] overwritten or added to. Rows pass in blocks, so
  // that the hidden layer of a long text is never held whole.
  void Forward(Context& context, ConstTensorView x, TensorView y,
               Store store) const;

  // The same, all rows at once, keeping what Backward needs.
  void ForwardSaving(Context& context, ConstTensorView x, TensorView y,
                     Store store, MlpSaved& saved) const;
  // x [rows, d] of that call, dy [rows, d]; dx [rows, d] is overwritten.
  void Backward(Context& context, ConstTensorView x, const MlpSaved& saved,
                ConstTensorView dy, TensorView dx) const;

 private:
  // y [rows, hidden] = the activated hidden layer.
  void Activate(Context& context, int64_t rows, const MlpSaved& saved,
                float* y) const;

  Activation activation_ = Activation::kGelu;
  Linear gate_;
  Linear up_;
  Linear down_;
};

}  // namespace headwise
