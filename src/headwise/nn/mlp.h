// The feed-forward half of a block: down(f(up(x))), or gated
// down(f(gate(x)) · up(x)).
#pragma once

#include <string>

#include "headwise/context.h"
#include "headwise/nn/linear.h"
#include "headwise/ops/activation/activation.h"
#include "headwise/tensor/temp.h"

namespace headwise {

// What a backward needs of a forward besides its input: the hidden layer
// before the activation, [rows, hidden], or gate and up side by side; and after
// it, where the products do it by the way.
struct MlpSaved {
  Temp in;
  Temp activated;
};

class Mlp {
 public:
  Mlp() = default;
  // gate may be absent.
  Mlp(Activation activation, Linear gate, Linear up, Linear down);
  // `in`: the outputs of gate and up by turns (gpt-oss).
  static Mlp Interleaved(Activation activation, Linear in, Linear down);

  int64_t hidden() const { return down_.in(); }
  bool gated() const { return gated_; }
  Activation activation() const { return activation_; }
  // Up, or gate and up as one layer, in this order.
  const Linear& in() const { return in_; }
  const Linear& down() const { return down_; }
  bool interleaved() const { return interleaved_; }
  // Where they are stored; not where they lie by turns.
  StoredMatrix gate() const { return in_.Stored(0, hidden()); }
  StoredMatrix up() const {
    return in_.Stored(gated_ ? hidden() : 0, in_.out());
  }

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
  // Whether the products do the activation by the way.
  bool Fuses(const Context& context, const ConstTensorView& x) const;
  // The same of both directions.
  bool FusesBackward(const Context& context, const ConstTensorView& x) const;
  void ForwardFused(Context& context, ConstTensorView x, TensorView y,
                    Store store) const;
  // [rows, in().out()]: gate beside up, of the product's outputs and back.
  void RunIn(Context& context, ConstTensorView x, TensorView in) const;
  void RunInBackward(Context& context, ConstTensorView x, ConstTensorView din,
                     TensorView dx) const;
  // in [rows, in().out()]; y [rows, hidden].
  ActivationArgs Activate(ConstTensorView in, TensorView y) const;

  Activation activation_ = Activation::kGelu;
  bool gated_ = false;
  bool interleaved_ = false;
  Linear in_;
  Linear down_;
};

}  // namespace headwise
