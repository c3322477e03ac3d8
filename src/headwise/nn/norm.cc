// Norm, forward and backward. Door: norm.h.
#include "headwise/nn/norm.h"

#include <string>
#include <utility>

#include "headwise/error.h"

namespace headwise {
namespace {

// Room for the statistics of `rows` rows, in args too.
void Keep(Context& context, int64_t rows, NormSaved* saved, NormArgs& args) {
  if (saved == nullptr) return;
  saved->mean = Temp(context, DType::kF32, {rows});
  saved->scale = Temp(context, DType::kF32, {rows});
  args.mean = saved->mean.view();
  args.scale = saved->scale.view();
}

}  // namespace

Norm::Norm(NormKind kind, float epsilon, Parameter weight, Parameter bias)
    : kind_(kind),
      epsilon_(epsilon),
      width_(weight.value.shape[0]),
      weight_(std::move(weight)),
      bias_(std::move(bias)) {
  if (epsilon >= 0 && epsilon < 1) return;
  throw Error(ErrorCode::kCorrupt,
              {weight_parameter().name, "an epsilon from 0 to 1 in the norm",
               std::to_string(epsilon), "see the model's configuration"});
}

void Norm::Forward(Context& context, ConstTensorView x, TensorView y,
                   NormSaved* saved, TensorView kept) const {
  NormArgs args = {.x = x,
                   .weight = weight_.view(context),
                   .bias = bias_.view(context),
                   .y = y,
                   .kept = kept};
  Keep(context, x.shape[0], saved, args);
  NormForward(context, {kind_, epsilon_}, args);
}

void Norm::ForwardHeads(Context& context, TensorView x,
                        NormSaved* saved) const {
  NormArgs args = {.x = x,
                   .weight = weight_.view(context),
                   .bias = bias_.view(context),
                   .y = x};
  Keep(context, x.shape[0] * x.shape[1], saved, args);
  NormForward(context, {kind_, epsilon_}, args);
}

void Norm::Backward(Context& context, ConstTensorView x, const NormSaved& saved,
                    ConstTensorView dy, TensorView dx,
                    ConstTensorView added) const {
  NormBackward(context, {kind_, epsilon_},
               {.x = x,
                .weight = weight_.view(context),
                .mean = saved.mean.view(),
                .scale = saved.scale.view()},
               {.dy = dy,
                .dx = dx,
                .dweight = weight_parameter().gradient,
                .dbias = bias_parameter().gradient,
                .added = added});
}

void Norm::BackwardHeads(Context& context, ConstTensorView x,
                         const NormSaved& saved, TensorView dx) const {
  NormBackward(context, {kind_, epsilon_},
               {.x = x,
                .weight = weight_.view(context),
                .mean = saved.mean.view(),
                .scale = saved.scale.view()},
               {.dy = dx,
                .dx = dx,
                .dweight = weight_parameter().gradient,
                .dbias = bias_parameter().gradient});
}

}  // namespace headwise
