// Mlp, forward and backward. Door: mlp.h.
#include "headwise/nn/mlp.h"

#include <algorithm>
#include <utility>
#include <vector>

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

ActivationArgs Mlp::Activate(int64_t rows, const float* in, float* y) const {
  const float* up = gated_ ? in + hidden() : nullptr;
  return {.kind = activation_,
          .count = rows * hidden(),
          .x = in,
          .up = up,
          .y = y,
          .width = hidden(),
          .stride = in_.out()};
}

void Mlp::Forward(Context& context, ConstTensorView x, TensorView y,
                  Store store) const {
  const int64_t rows = x.shape[0];
  const int64_t block = std::min(rows, kRowsPerBlock);
  const Scratch memory =
      context.workspace().TakeArray<float>(block * (in_.out() + hidden()));
  float* in = memory.As<float>();
  float* activated = in + block * in_.out();
  for (int64_t begin = 0; begin < rows; begin += block) {
    const int64_t count = std::min(block, rows - begin);
    in_.Forward(context, Rows(x, begin, count), View(in, {count, in_.out()}));
    down_.Expect(context, count);
    ActivationForward(context, Activate(count, in, activated));
    down_.Forward(context, View(activated, {count, hidden()}),
                  Rows(y, begin, count), store);
  }
}

void Mlp::ForwardSaving(Context& context, ConstTensorView x, TensorView y,
                        Store store, MlpSaved& saved) const {
  const int64_t rows = x.shape[0];
  saved.in = context.workspace().TakeArray<float>(rows * in_.out());
  float* in = saved.in.As<float>();
  in_.Forward(context, x, View(in, {rows, in_.out()}));
  const Scratch memory = context.workspace().TakeArray<float>(rows * hidden());
  ActivationForward(context, Activate(rows, in, memory.As<float>()));
  down_.Forward(context, View(memory.As<float>(), {rows, hidden()}), y, store);
}

void Mlp::Backward(Context& context, ConstTensorView x, const MlpSaved& saved,
                   ConstTensorView dy, TensorView dx) const {
  const int64_t rows = x.shape[0], width = in_.out();
  const Scratch memory =
      context.workspace().TakeArray<float>(rows * (2 * hidden() + width));
  const TensorView activated = View(memory.As<float>(), {rows, hidden()});
  const TensorView dactivated =
      View(memory.As<float>() + rows * hidden(), {rows, hidden()});
  const TensorView din =
      View(memory.As<float>() + 2 * rows * hidden(), {rows, width});
  down_.BackwardInput(context, dy, dactivated);
  // The activated layer is cheaper to make again than to keep.
  float* d = din.As<float>();
  ActivationBackward(
      context, Activate(rows, saved.in.As<float>(), activated.As<float>()),
      {.dy = dactivated.As<float>(),
       .dx = d,
       .dup = gated_ ? d + hidden() : nullptr});
  down_.BackwardWeights(context, activated, dy);
  in_.Backward(context, x, din, dx);
}

}  // namespace headwise
