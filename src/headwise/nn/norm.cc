// Norm, forward and backward. Door: norm.h.
#include "headwise/nn/norm.h"

#include <string>
#include <utility>

#include "headwise/error.h"
#include "headwise/nn/finite.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/pointwise/pointwise.h"

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

Norm::Norm(NormKind kind, float epsilon, Parameter weight, Parameter bias,
           float offset)
    : kind_(kind),
      epsilon_(epsilon),
      offset_(offset),
      width_(weight.value.shape[0]),
      weight_(std::move(weight), Values::Type::kF32, offset),
      bias_(std::move(bias)) {
  RequireEpsilon();
}

Norm::Norm(NormKind kind, float epsilon, int64_t width)
    : kind_(kind), epsilon_(epsilon), width_(width) {
  RequireEpsilon();
}

void Norm::RequireEpsilon() const {
  if (epsilon_ >= 0 && epsilon_ < 1) return;
  throw Error(ErrorCode::kCorrupt,
              {weight_parameter().name, "an epsilon from 0 to 1 in the norm",
               std::to_string(epsilon_), "see the model's configuration"});
}

Tensor Norm::Gain(Context& context) const {
  if (!weight_) {
    Tensor ones(DType::kF32, {width_});  // zeros
    AddToEach(1, ones);
    return ones;
  }
  Tensor gain = ToF32(context, weight_parameter());
  RequireFinite(context, weight_parameter(), gain.view());
  if (offset_ != 0) AddToEach(offset_, gain);
  return gain;
}

ConstTensorView Norm::Factors(Context& context, Temp& made) const {
  const ConstTensorView weight = weight_.view(context);
  if (offset_ == 0 || weight_parameter().fixed()) return weight;
  made = Temp(context, DType::kF32, {width_});
  Fill(context, offset_, made.view());
  AddTo(context, weight, made.view());
  return made.view();
}

void Norm::Forward(Context& context, ConstTensorView x, TensorView y,
                   NormSaved* saved, TensorView kept) const {
  Temp made;
  NormArgs args = {.x = x,
                   .weight = Factors(context, made),
                   .bias = bias_.view(context),
                   .y = y,
                   .kept = kept};
  Keep(context, x.shape[0], saved, args);
  NormForward(context, {kind_, epsilon_}, args);
}

void Norm::ForwardHeads(Context& context, TensorView x,
                        NormSaved* saved) const {
  Temp made;
  NormArgs args = {.x = x,
                   .weight = Factors(context, made),
                   .bias = bias_.view(context),
                   .y = x};
  Keep(context, x.shape[0] * x.shape[1], saved, args);
  NormForward(context, {kind_, epsilon_}, args);
}

void Norm::Backward(Context& context, ConstTensorView x, const NormSaved& saved,
                    ConstTensorView dy, TensorView dx,
                    ConstTensorView added) const {
  Temp made;
  NormBackward(context, {kind_, epsilon_},
               {.x = x,
                .weight = Factors(context, made),
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
  Temp made;
  NormBackward(context, {kind_, epsilon_},
               {.x = x,
                .weight = Factors(context, made),
                .mean = saved.mean.view(),
                .scale = saved.scale.view()},
               {.dy = dx,
                .dx = dx,
                .dweight = weight_parameter().gradient,
                .dbias = bias_parameter().gradient});
}

}  // namespace headwise
