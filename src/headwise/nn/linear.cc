// Linear layers over packed products. Door: linear.h.
#include "headwise/nn/linear.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "headwise/error.h"

namespace headwise {

Linear::Linear(std::vector<Part> parts, WeightLayout layout)
    : parts_(std::move(parts)),
      layout_(layout),
      packed_(std::make_shared<Packed>()) {
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
    if (part.bias && (part.bias.value.rank != 1 ||
                      part.bias.value.shape[0] != w.shape[out_axis])) {
      throw Error(
          ErrorCode::kInvalidArgument,
          {part.bias.name, "[" + std::to_string(w.shape[out_axis]) + "]",
           ToString(part.bias.value), ""});
    }
  }
}

void Linear::PackBias() const {
  if (std::none_of(parts_.begin(), parts_.end(),
                   [](const Part& part) { return bool(part.bias); })) {
    return;
  }
  const int out_axis = layout_ == WeightLayout::kOutIn ? 0 : 1;
  Tensor bias(DType::kF32, {out_});
  int64_t at = 0;
  for (const Part& part : parts_) {
    if (part.bias) {
      const Tensor b = ToF32(part.bias);
      std::memcpy(bias.As<float>() + at, b.As<float>(), b.bytes());
    }
    at += part.weight.value.shape[out_axis];
  }
  packed_->bias = std::move(bias);
}

void Linear::Pack(Context& context) const {
  const bool out_in = layout_ == WeightLayout::kOutIn;
  const Operand operand = out_in ? Operand::kTransposed : Operand::kPlain;
  if (parts_.size() == 1) {
    packed_->weight = PackedMatrix(context, parts_[0].weight.value, operand);
    return;
  }
  Tensor weight = out_in ? Tensor(DType::kF32, {out_, in_})
                         : Tensor(DType::kF32, {in_, out_});
  int64_t at = 0;
  for (const Part& part : parts_) {
    const Tensor values = ToF32(part.weight);
    const int64_t outs = values.shape(out_in ? 0 : 1);
    if (out_in) {
      std::memcpy(weight.As<float>() + at * in_, values.As<float>(),
                  values.bytes());
    } else {
      for (int64_t r = 0; r < in_; ++r) {
        std::memcpy(weight.As<float>() + r * out_ + at,
                    values.As<float>() + r * outs, outs * sizeof(float));
      }
    }
    at += outs;
  }
  packed_->weight =
      PackedMatrix(context, std::as_const(weight).view(), operand);
}

// Few rows: each part is read as the checkpoint holds it.
void Linear::ForwardFew(Context& context, ConstTensorView x, TensorView y,
                        Store store) const {
  const bool out_in = layout_ == WeightLayout::kOutIn;
  MatmulProblem problem;
  problem.m = x.shape[0];
  problem.k = in_;
  problem.b = out_in ? Operand::kTransposed : Operand::kPlain;
  problem.store = store;
  MatmulArgs args;
  args.a = x;
  const ConstTensorView bias = std::as_const(packed_->bias).view();
  int64_t at = 0;
  for (const Part& part : parts_) {
    args.b = part.weight.value;
    problem.n = args.b.shape[out_in ? 0 : 1];
    args.c = y;
    args.c.data = y.As<float>() + at;
    args.c.shape[1] = problem.n;
    if (bias) args.bias = View(bias.As<float>() + at, {problem.n});
    Matmul(context, problem, args);
    at += problem.n;
  }
}

void Linear::Forward(Context& context, ConstTensorView x, TensorView y,
                     Store store) const {
  std::call_once(packed_->bias_once, [&] { PackBias(); });
  if (x.shape[0] <= kFewRows) return ForwardFew(context, x, y, store);
  std::call_once(packed_->once, [&] { Pack(context); });
  MatmulProblem problem;
  problem.m = x.shape[0];
  problem.n = out_;
  problem.k = in_;
  problem.store = store;
  MatmulArgs args;
  args.a = x;
  args.packed_b = &packed_->weight;
  args.bias = std::as_const(packed_->bias).view();
  args.c = y;
  Matmul(context, problem, args);
}

}  // namespace headwise
