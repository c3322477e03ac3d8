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
  saved->mean = context.workspace().TakeArray<float>(rows);
  saved->scale = context.workspace().TakeArray<float>(rows);
  args.mean = saved->mean.As<float>();
  args.scale = saved->scale.As<float>();
}

}  // namespace

Norm::Norm(NormKind kind, float epsilon, Parameter weight, Parameter bias)
    : kind_(kind),
      epsilon_(epsilon),
      width_(weight.value.shape[0]),
      weight_parameter_(std::move(weight)),
      bias_parameter_(std::move(bias)),
      weight_(ToF32(weight_parameter_)) {
  if (bias_parameter_) bias_ = ToF32(bias_parameter_);
  if (epsilon >= 0 && epsilon < 1) return;
  throw Error(ErrorCode::kCorrupt,
              {weight_parameter_.name, "an epsilon from 0 to 1 in the norm",
               std::to_string(epsilon), "see the model's configuration"});
}

void Norm::Forward(Context& context, ConstTensorView x, TensorView y,
                   NormSaved* saved) const {
  NormArgs args = {.x = x.As<float>(),
                   .weight = Values(weight_parameter_, weight_),
                   .bias = Values(bias_parameter_, bias_),
                   .y = y.As<float>()};
  Keep(context, x.shape[0], saved, args);
  NormForward(context, {kind_, x.shape[0], width_, epsilon_}, args);
}

void Norm::ForwardHeads(Context& context, TensorView x,
                        NormSaved* saved) const {
  NormArgs args = {.x = x.As<float>(),
                   .weight = Values(weight_parameter_, weight_),
                   .y = x.As<float>()};
  Keep(context, x.shape[0] * x.shape[1], saved, args);
  NormForward(context,
              {kind_, x.shape[0], width_, epsilon_, x.shape[1], x.stride[0]},
              args);
}

void Norm::Backward(Context& context, ConstTensorView x, const NormSaved& saved,
                    ConstTensorView dy, TensorView dx) const {
  NormBackward(context, {kind_, x.shape[0], width_, epsilon_},
               {.x = x.As<float>(),
                .weight = Values(weight_parameter_, weight_),
                .mean = saved.mean.As<float>(),
                .scale = saved.scale.As<float>()},
               {.dy = dy.As<float>(),
                .dx = dx.As<float>(),
                .dweight = weight_parameter_.gradient.As<float>(),
                .dbias = bias_parameter_.gradient.As<float>()});
}

void Norm::BackwardHeads(Context& context, ConstTensorView x,
                         const NormSaved& saved, TensorView dx) const {
  NormBackward(context,
               {kind_, x.shape[0], width_, epsilon_, x.shape[1], x.stride[0]},
               {.x = x.As<float>(),
                .weight = Values(weight_parameter_, weight_),
                .mean = saved.mean.As<float>(),
                .scale = saved.scale.As<float>()},
               {.dy = dx.As<float>(),
                .dx = dx.As<float>(),
                .dweight = weight_parameter_.gradient.As<float>()});
}

}  // namespace headwise
