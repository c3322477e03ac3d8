// Linear layers over products, and their backward. Door: linear.h.
#include "headwise/nn/linear.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "headwise/error.h"
#include "headwise/nn/release.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/tensor/slice.h"
#include "headwise/tensor/unaligned.h"

namespace headwise {

Linear::Linear(std::vector<Part> parts, WeightLayout layout)
    : parts_(std::move(parts)),
      layout_(layout),
      bias_(std::make_shared<Bias>()) {
  const int out_axis = layout == WeightLayout::kOutIn ? 0 : 1;
  for (const Part& part : parts_) {
    const ConstTensorView& w = part.weight.value;
    if (w.rank != 2) {
      throw Error(ErrorCode::kInvalidArgument,
                  {part.weight.name, "a matrix", ToString(w), ""});
    }
    const int64_t in = w.shape[1 - out_axis];
    if (in_ != 0 && in_ != in) {
      throw Error(ErrorCode::kInvalidArgument,
                  {part.weight.name, std::to_string(in_) + " inputs",
                   ToString(w), "parts of one layer read the same input"});
    }
    in_ = in;
    out_ += w.shape[out_axis];
    has_bias_ = has_bias_ || part.bias;
    aligned_ = aligned_ && IsAligned(w);
    if (part.bias && (part.bias.value.rank != 1 ||
                      part.bias.value.shape[0] != w.shape[out_axis])) {
      throw Error(
          ErrorCode::kInvalidArgument,
          {part.bias.name, "[" + std::to_string(w.shape[out_axis]) + "]",
           ToString(part.bias.value), ""});
    }
  }
  for (const Part& part : parts_) values_.push_back(part.weight.operand());
  if (parts_.empty() || !parts_[0].weight.fixed()) return;
  std::vector<Parameter> read;
  for (const Part& part : parts_) read.push_back(part.weight);
  weights_ = Prepare(values_, operand(), [read = std::move(read)] {
    for (const Parameter& weight : read) ReleaseWeight(weight);
  });
}

int64_t Linear::stored_bytes() const {
  int64_t bytes = 0;
  for (const Part& part : parts_) {
    const ConstTensorView& w = part.weight.value;
    bytes += w.shape[0] * w.shape[1] * static_cast<int64_t>(SizeOf(w.type));
    if (part.bias) {
      bytes += part.bias.value.shape[0] *
               static_cast<int64_t>(SizeOf(part.bias.value.type));
    }
  }
  return bytes;
}

// The biases of all parts side by side; those of parts without are 0.
void Linear::JoinBias(Context& context, const TensorView& to) const {
  int64_t at = 0;
  for (const Part& part : parts_) {
    const TensorView own = Slice(to, 0, at, at + Outs(part));
    part.bias ? Copy(context, part.bias.value, own) : Fill(context, 0, own);
    at += Outs(part);
  }
}

template <typename View>
View Linear::PartOf(View whole, int64_t begin, int64_t outs) const {
  const int axis = layout_ == WeightLayout::kOutIn ? 0 : 1;
  return Slice(whole, axis, begin, begin + outs);
}

Shape Linear::WholeShape() const {
  return layout_ == WeightLayout::kOutIn ? Shape{out_, in_} : Shape{in_, out_};
}

ConstTensorView Linear::WholeWeight(Context& context, DType type,
                                    Temp& copy) const {
  if (parts_.size() == 1 && aligned_ && values_[0].type == type &&
      values_[0].device == context.device()) {
    return values_[0];
  }
  copy = Temp(context, type, WholeShape());
  int64_t at = 0;
  for (const Part& part : parts_) {
    Copy(context, part.weight.operand(), PartOf(copy.view(), at, Outs(part)));
    at += Outs(part);
  }
  return copy.view();
}

void Linear::Forward(Context& context, ConstTensorView x, TensorView y,
                     Store store) const {
  const MatmulProblem problem = {
      .m = x.shape[0], .n = out_, .k = in_, .b = operand(), .store = store};
  MatmulArgs args = {.a = x, .c = y};
  Temp joined;
  if (weights_) {
    args.weights = weights_.get();
    std::call_once(bias_->once, [&] {
      if (!has_bias_) return;
      bias_->values = Tensor(context, y.type, {out_});
      JoinBias(context, bias_->values.view());
      context.Synchronize();  // other contexts may read
    });
    args.bias = std::as_const(bias_->values).view();
  } else {
    args.parts = values_;
    if (parts_.size() == 1) {
      args.bias = parts_[0].bias.operand();
    } else if (has_bias_) {
      joined = Temp(context, DType::kF32, {out_});
      JoinBias(context, joined.view());
      args.bias = joined.view();
    }
  }
  Matmul(context, problem, args);
}

void Linear::Expect(Context& context, int64_t rows) const {
  if (weights_) headwise::Expect(context, *weights_, rows);
}

void Linear::Backward(Context& context, ConstTensorView x, ConstTensorView dy,
                      TensorView dx, Store store) const {
  if (dx) BackwardInput(context, dy, dx, store);
  BackwardWeights(context, x, dy);
}

// dx = dy · W.
void Linear::BackwardInput(Context& context, ConstTensorView dy, TensorView dx,
                           Store store) const {
  Temp copy;
  MatmulProblem problem;
  problem.m = dy.shape[0];
  problem.n = in_;
  problem.k = out_;
  problem.b =
      layout_ == WeightLayout::kOutIn ? Operand::kPlain : Operand::kTransposed;
  problem.store = store;
  MatmulArgs args;
  args.a = dy;
  args.b = WholeWeight(context, dy.type, copy);
  args.c = dx;
  Matmul(context, problem, args);
}

// dW += dyᵀ · x, or its transpose: one product, then shared out to the parts.
void Linear::BackwardWeights(Context& context, ConstTensorView x,
                             ConstTensorView dy) const {
  const bool out_in = layout_ == WeightLayout::kOutIn;
  const bool alone = parts_.size() == 1;
  const bool any =
      std::any_of(parts_.begin(), parts_.end(),
                  [](const Part& part) { return part.weight.trainable(); });
  Temp memory;
  TensorView gradient = parts_[0].weight.gradient;
  if (!alone && any) {
    memory = Temp(context, DType::kF32, WholeShape());
    gradient = memory.view();
  }
  if (any) {
    MatmulProblem problem;
    problem.m = out_in ? out_ : in_;
    problem.n = out_in ? in_ : out_;
    problem.k = dy.shape[0];
    problem.a = Operand::kTransposed;
    problem.store = alone ? Store::kAccumulate : Store::kOverwrite;
    MatmulArgs args;
    args.a = out_in ? dy : x;
    args.b = out_in ? x : dy;
    args.c = gradient;
    Matmul(context, problem, args);
  }
  int64_t at = 0;
  for (const Part& part : parts_) {
    const int64_t outs = Outs(part);
    if (!alone && part.weight.trainable()) {
      AddTo(context, PartOf(gradient, at, outs), part.weight.gradient);
    }
    if (part.bias.trainable()) {
      AddColumnSums(context, Columns(dy, at, at + outs), part.bias.gradient);
    }
    at += outs;
  }
}

}  // namespace headwise
