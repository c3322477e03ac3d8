// The router of a mixture of heads, forward and backward (Jin et al. 2024): a
// linear layer whose logits ops/gate turns into gates. Its counts of heads are
// ours: with them a router that knows nothing gives gates of 1, so that a
// mixture starts as attention does. Balance: Σ_i P_i f_i over the routed heads,
// P their mean probability and f the share of tokens that chose them.
// Door: head_gates.h.
#include <numeric>

#include "headwise/nn/head_gates.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/gate/gate.h"

namespace headwise {

void HeadGates::Route(Context& context, ConstTensorView x, const GateDraw& draw,
                      GateSaved& saved) const {
  saved.routes =
      Temp(context, DType::kF32, {x.shape[0], weights_.router.out()});
  saved.chosen = Temp(context, DType::kF64, {routed()});
  weights_.router.Forward(context, x, saved.routes.view());
  const bool adds = draw.training != nullptr && draw.training->loss != nullptr;
  Temp mean;
  if (adds) mean = Temp(context, DType::kF64, {routed()});
  RouteForward(context, {config_.shared, config_.active},
               {.routes = saved.routes.view(),
                .gates = saved.own.view(),
                .chosen = saved.chosen.view(),
                .mean = mean.view()});
  if (!adds) return;
  const auto means = ToVector<double>(context, mean.view());
  const auto chosen = ToVector<double>(context, saved.chosen.view());
  *draw.training->loss +=
      draw.training->balance *
      std::inner_product(means.begin(), means.end(), chosen.begin(), 0.0);
}

void HeadGates::RouteBackward(Context& context, ConstTensorView x,
                              const GateDraw& draw, const GateSaved& saved,
                              ConstTensorView down, TensorView dx) const {
  const Temp dlogits(context, DType::kF32, {x.shape[0], weights_.router.out()});
  const float balance =
      draw.training != nullptr ? draw.training->balance : 0.0f;
  headwise::RouteBackward(
      context, {config_.shared, config_.active},
      {.routes = saved.routes.view(),
       .gates = saved.own.view(),
       .chosen = saved.chosen.view()},
      {.dgates = down, .balance = balance, .dlogits = dlogits.view()});
  // A product's operands and what it adds to are of one type.
  const Temp rounded =
      x.type == DType::kF32
          ? Temp()
          : Temp(context, x.type, {x.shape[0], weights_.router.out()});
  if (rounded) Copy(context, dlogits.view(), rounded.view());
  weights_.router.Backward(context, x,
                           rounded ? rounded.view() : dlogits.view(), dx,
                           Store::kAccumulate);
}

}  // namespace headwise
