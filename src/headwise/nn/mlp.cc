// Mlp, forward and backward. Door: mlp.h.
#include "headwise/nn/mlp.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

// Rows on the CPU: enough for full-speed products, few enough for caches.
constexpr int64_t kRowsPerBlock = 512;

// Two layers that read the same input as one.
Linear SideBySide(const Linear& first, const Linear& second) {
  std::vector<Linear::Part> parts = first.parts();
  parts.insert(parts.end(), second.parts().begin(), second.parts().end());
  return {std::move(parts), second.layout()};
}

}  // namespace

Mlp::Mlp(Activation activation, Linear gate, Linear up, Linear down)
    : activation_(activation),
      gated_(static_cast<bool>(gate)),
      in_(gated_ ? SideBySide(gate, up) : std::move(up)),
      down_(std::move(down)) {}

Mlp Mlp::Interleaved(Activation activation, Linear in, Linear down) {
  Mlp mlp;
  mlp.activation_ = activation;
  mlp.gated_ = mlp.interleaved_ = true;
  mlp.in_ = std::move(in);
  mlp.down_ = std::move(down);
  return mlp;
}

void Mlp::RunIn(Context& context, ConstTensorView x, TensorView in) const {
  if (!interleaved_) return in_.Forward(context, x, in);
  const int64_t rows = x.shape[0];
  const Temp turns(context, x.type, {rows, in_.out()});
  in_.Forward(context, x, turns.view());
  const TensorView pairs = Reshaped(turns.view(), {rows, hidden(), 2});
  Copy(context, At(pairs, 2, 0), Columns(in, 0, hidden()));
  Copy(context, At(pairs, 2, 1), Columns(in, hidden(), 2 * hidden()));
}

void Mlp::RunInBackward(Context& context, ConstTensorView x,
                        ConstTensorView din, TensorView dx) const {
  if (!interleaved_) return in_.Backward(context, x, din, dx);
  const int64_t rows = x.shape[0];
  const Temp turns(context, din.type, {rows, in_.out()});
  const TensorView pairs = Reshaped(turns.view(), {rows, hidden(), 2});
  Copy(context, Columns(din, 0, hidden()), At(pairs, 2, 0));
  Copy(context, Columns(din, hidden(), 2 * hidden()), At(pairs, 2, 1));
  in_.Backward(context, x, turns.view(), dx);
}

ActivationArgs Mlp::Activate(ConstTensorView in, TensorView y) const {
  ActivationArgs args = {.x = Columns(in, 0, hidden()), .y = y};
  if (gated_) args.up = Columns(in, hidden(), 2 * hidden());
  return args;
}

bool Mlp::Fuses(const Context& context, const ConstTensorView& x) const {
  const int64_t rows = x.shape[0];
  if (gated_) {
    return activation_ == Activation::kSilu && !interleaved_ &&
           FusesEpilogue(context, x.type, Epilogue::kSiluGated, rows);
  }
  return activation_ == Activation::kGeluTanh &&
         FusesEpilogue(context, x.type, Epilogue::kGeluTanh, rows);
}

bool Mlp::FusesBackward(const Context& context,
                        const ConstTensorView& x) const {
  return !gated_ && Fuses(context, x) &&
         FusesEpilogue(context, x.type, Epilogue::kGeluTanhBackward,
                       x.shape[0]);
}

void Mlp::ForwardFused(Context& context, ConstTensorView x, TensorView y,
                       Store store) const {
  const Temp activated(context, x.type, {x.shape[0], hidden()});
  gated_ ? in_.ForwardSiluGated(context, x, activated.view())
         : in_.ForwardGelu(context, x, {}, activated.view());
  down_.Forward(context, activated.view(), y, store);
}

void Mlp::Forward(Context& context, ConstTensorView x, TensorView y,
                  Store store) const {
  if (Fuses(context, x)) return ForwardFused(context, x, y, store);
  const int64_t rows = x.shape[0];
  const int64_t block =
      context.device().is_cpu() ? std::min(rows, kRowsPerBlock) : rows;
  const Temp in_memory(context, x.type, {block, in_.out()});
  const Temp memory(context, x.type, {block, hidden()});
  for (int64_t begin = 0; begin < rows; begin += block) {
    const int64_t end = std::min(rows, begin + block), count = end - begin;
    const TensorView in = Rows(in_memory.view(), 0, count);
    const TensorView activated = Rows(memory.view(), 0, count);
    RunIn(context, Rows(x, begin, end), in);
    down_.Expect(context, count);
    ActivationForward(context, {activation_}, Activate(in, activated));
    down_.Forward(context, activated, Rows(y, begin, end), store);
  }
}

void Mlp::ForwardSaving(Context& context, ConstTensorView x, TensorView y,
                        Store store, MlpSaved& saved) const {
  const int64_t rows = x.shape[0];
  saved.in = Temp(context, x.type, {rows, in_.out()});
  if (FusesBackward(context, x)) {
    saved.activated = Temp(context, x.type, {rows, hidden()});
    in_.ForwardGelu(context, x, saved.in.view(), saved.activated.view());
    return down_.Forward(context, saved.activated.view(), y, store);
  }
  RunIn(context, x, saved.in.view());
  const Temp activated(context, x.type, {rows, hidden()});
  ActivationForward(context, {activation_},
                    Activate(saved.in.view(), activated.view()));
  down_.Forward(context, activated.view(), y, store);
}

void Mlp::Backward(Context& context, ConstTensorView x, const MlpSaved& saved,
                   ConstTensorView dy, TensorView dx) const {
  const int64_t rows = x.shape[0];
  const Temp din(context, x.type, {rows, in_.out()});
  if (saved.activated) {
    down_.BackwardInputGelu(context, dy, saved.in.view(), din.view());
    down_.BackwardWeights(context, saved.activated.view(), dy);
    return in_.Backward(context, x, din.view(), dx);
  }
  const Temp activated(context, x.type, {rows, hidden()});
  const Temp dactivated(context, x.type, {rows, hidden()});
  down_.BackwardInput(context, dy, dactivated.view());
  // The activated layer is cheaper to make again than to keep.
  ActivationGrads grads = {.dy = dactivated.view(),
                           .dx = Columns(din.view(), 0, hidden())};
  if (gated_) grads.dup = Columns(din.view(), hidden(), 2 * hidden());
  ActivationBackward(context, {activation_},
                     Activate(saved.in.view(), activated.view()), grads);
  down_.BackwardWeights(context, activated.view(), dy);
  RunInBackward(context, x, din.view(), dx);
}

}  // namespace headwise
