// Mlp. Door: mlp.h.
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

}  // namespace headwise
