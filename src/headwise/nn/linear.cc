// Linear layers over packed products. Door: linear.h.
#include "headwise/nn/linear.h"

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

void Linear::Pack(Context& context) const {
  const bool out_in = layout_ == WeightLayout::kOutIn;
  Tensor weight = out_in ? Tensor(DType::kF32, {out_, in_})
                         : Tensor(DType::kF32, {in_, out_});
  int64_t at = 0;
  bool any_bias = false;
  Tensor bias(DType::kF32, {out_});
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
    if (part.bias) {
      const Tensor b = ToF32(part.bias);
      std::memcpy(bias.As<float>() + at, b.As<float>(), b.bytes());
      any_bias = true;
    }
    at += outs;
  }
  packed_->weight =
      PackedMatrix(context, std::as_const(weight).view(),
                   out_in ? Operand::kTransposed : Operand::kPlain);
  if (any_bias) packed_->bias = std::move(bias);
}

void Linear::Forward(Context& context, ConstTensorView x, TensorView y,
                     Store store) const {
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
