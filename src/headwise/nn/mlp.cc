// Mlp, forward and backward. Door: mlp.h.
#include "headwise/nn/mlp.h"

#include <algorithm>
#include <utility>

#include "headwise/backend/cpu/workspace.h"

namespace headwise {
namespace {

// Large enough for full-speed products, small enough for the caches.
constexpr int64_t kRowsPerBlock = 512;

template <typename View>
View Rows(View view, int64_t begin, int64_t count) {
  view.data = view.template As<float>() + begin * view.stride[0];
  view.shape[0] = count;
  return view;
}

}  // namespace

Mlp::Mlp(Activation activation, Linear gate, Linear up, Linear down)
    : activation_(activation),
      gate_(std::move(gate)),
      up_(std::move(up)),
      down_(std::move(down)) {}

void Mlp::Forward(Context& context, ConstTensorView x, TensorView y,
                  Store store) const {
  const int64_t rows = x.shape[0];
  const int64_t block = std::min(rows, kRowsPerBlock);
  Scratch up_memory = context.workspace().TakeArray<float>(block * hidden());
  Scratch gate_memory;
  if (gated()) {
    gate_memory = context.workspace().TakeArray<float>(block * hidden());
  }
  for (int64_t begin = 0; begin < rows; begin += block) {
    const int64_t count = std::min(block, rows - begin);
    const ConstTensorView in = Rows(x, begin, count);
    float* up = up_memory.As<float>();
    up_.Forward(context, in, View(up, {count, hidden()}));
    ActivationArgs args{activation_, count * hidden(), up, nullptr, up};
    if (gated()) {
      float* gate = gate_memory.As<float>();
      gate_.Forward(context, in, View(gate, {count, hidden()}));
      args.x = gate;
      args.up = up;
    }
    ActivationForward(context, args);
    down_.Forward(context, View(up, {count, hidden()}), Rows(y, begin, count),
                  store);
  }
}

void Mlp::Activate(Context& context, int64_t rows, const MlpSaved& saved,
                   float* y) const {
  const float* up = saved.up.As<float>();
  ActivationArgs args{activation_, rows * hidden(), up, nullptr, y};
  if (gated()) {
    args.x = saved.gate.As<float>();
    args.up = up;
  }
  ActivationForward(context, args);
}

void Mlp::ForwardSaving(Context& context, ConstTensorView x, TensorView y,
                        Store store, MlpSaved& saved) const {
  const int64_t rows = x.shape[0], count = rows * hidden();
  saved.up = context.workspace().TakeArray<float>(count);
  up_.Forward(context, x, View(saved.up.As<float>(), {rows, hidden()}));
  if (gated()) {
    saved.gate = context.workspace().TakeArray<float>(count);
    gate_.Forward(context, x, View(saved.gate.As<float>(), {rows, hidden()}));
  }
  const Scratch memory = context.workspace().TakeArray<float>(count);
  Activate(context, rows, saved, memory.As<float>());
  down_.Forward(context, View(memory.As<float>(), {rows, hidden()}), y, store);
}

void Mlp::Backward(Context& context, ConstTensorView x, const MlpSaved& saved,
                   ConstTensorView dy, TensorView dx) const {
  const int64_t rows = x.shape[0], count = rows * hidden();
  // The activation is cheaper to run again than to keep.
  const Scratch memory = context.workspace().TakeArray<float>(count);
  const Scratch gradient = context.workspace().TakeArray<float>(count);
  const TensorView activated = View(memory.As<float>(), {rows, hidden()});
  const TensorView dhidden = View(gradient.As<float>(), {rows, hidden()});
  Activate(context, rows, saved, memory.As<float>());
  down_.Backward(context, activated, dy, dhidden);
  const float* up = saved.up.As<float>();
  float* d = gradient.As<float>();
  if (!gated()) {
    ActivationBackward(context, {activation_, count, up},
                       {.dy = d, .dx = d, .dup = nullptr});
    return up_.Backward(context, x, dhidden, dx);
  }
  // ∂/∂up takes the place of the activated layer, which is done with.
  ActivationBackward(context, {activation_, count, saved.gate.As<float>(), up},
                     {.dy = d, .dx = d, .dup = memory.As<float>()});
  gate_.Backward(context, x, dhidden, dx);
  up_.Backward(context, x, activated, dx, Store::kAccumulate);
}

}  // namespace headwise
