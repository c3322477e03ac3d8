// Linear layers over packed products, and their backward. Door: linear.h.
#include "headwise/nn/linear.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "headwise/error.h"
#include "headwise/nn/projection.h"
#include "headwise/nn/release.h"

namespace headwise {
namespace {

// Columns [begin, begin + count) of a matrix.
template <typename View>
View Columns(View matrix, int64_t begin, int64_t count) {
  matrix.data = matrix.template As<float>() + begin;
  matrix.shape[1] = count;
  return matrix;
}

// The values as f32: where they lie, or in `copy`.
ConstTensorView AsF32(const Parameter& parameter, Tensor& copy) {
  if (parameter.value.type == DType::kF32) return parameter.value;
  copy = ToF32(parameter);
  return std::as_const(copy).view();
}

}  // namespace

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
    return ReleaseWeight(parts_[0].weight.value);
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
    ReleaseWeight(part.weight.value);
    at += outs;
  }
  packed_->weight =
      PackedMatrix(context, std::as_const(weight).view(), operand);
}

// One or two rows in f16, where the processor has instructions for it; more
// share the conversion to f32.
bool Linear::PrefersHalf(int64_t rows) const {
  return rows <= 2 && layout_ == WeightLayout::kOutIn &&
         HalfMatrix::Supported() &&
         std::all_of(parts_.begin(), parts_.end(), [](const Part& part) {
           return part.weight.value.type == DType::kF16;
         });
}

void Linear::PackHalf() const {
  std::vector<ConstTensorView> weights;
  for (const Part& part : parts_) weights.push_back(part.weight.value);
  packed_->half = HalfMatrix(weights);
  for (const Part& part : parts_) ReleaseWeight(part.weight.value);
}

// Each part is read as the checkpoint, or its trainer, holds it.
void Linear::ForwardParts(Context& context, ConstTensorView x, TensorView y,
                          Store store) const {
  MatmulProblem problem;
  problem.m = x.shape[0];
  problem.k = in_;
  problem.b =
      layout_ == WeightLayout::kOutIn ? Operand::kTransposed : Operand::kPlain;
  problem.store = store;
  MatmulArgs args;
  args.a = x;
  const ConstTensorView bias = std::as_const(packed_->bias).view();
  int64_t at = 0;
  for (const Part& part : parts_) {
    problem.n = Outs(part);
    args.b = part.weight.value;
    args.c = Columns(y, at, problem.n);
    args.bias = part.bias.value;
    if (bias) args.bias = View(bias.As<float>() + at, {problem.n});
    Matmul(context, problem, args);
    at += problem.n;
  }
}

void Linear::Forward(Context& context, ConstTensorView x, TensorView y,
                     Store store) const {
  const bool trainable = parts_[0].weight.trainable();
  if (!trainable) std::call_once(packed_->bias_once, [&] { PackBias(); });
  const bool half = !trainable && PrefersHalf(x.shape[0]);
  if (trainable || (!half && x.shape[0] <= kFewRows)) {
    return ForwardParts(context, x, y, store);
  }
  if (half) {
    std::call_once(packed_->half_once, [&] { PackHalf(); });
  } else {
    std::call_once(packed_->once, [&] { Pack(context); });
  }
  MatmulProblem problem;
  problem.m = x.shape[0];
  problem.n = out_;
  problem.k = in_;
  problem.store = store;
  MatmulArgs args;
  args.a = x;
  if (half) {
    args.half_b = &packed_->half;
  } else {
    args.packed_b = &packed_->weight;
  }
  args.bias = std::as_const(packed_->bias).view();
  args.c = y;
  Matmul(context, problem, args);
}

// dx = Σ dy_p · W_p over the parts; dW_p += dy_pᵀ · x, or its transpose.
void Linear::Backward(Context& context, ConstTensorView x, ConstTensorView dy,
                      TensorView dx, Store store) const {
  const bool out_in = layout_ == WeightLayout::kOutIn;
  const int64_t rows = dy.shape[0];
  int64_t at = 0;
  for (const Part& part : parts_) {
    const int64_t outs = Outs(part);
    const ConstTensorView dpart = Columns(dy, at, outs);
    if (dx) {
      MatmulProblem problem;
      problem.m = rows;
      problem.n = in_;
      problem.k = outs;
      problem.b = out_in ? Operand::kPlain : Operand::kTransposed;
      problem.store = at == 0 ? store : Store::kAccumulate;
      Tensor copy;
      MatmulArgs args;
      args.a = dpart;
      args.b = AsF32(part.weight, copy);
      args.c = dx;
      Matmul(context, problem, args);
    }
    if (part.weight.trainable()) {
      MatmulProblem problem;
      problem.m = out_in ? outs : in_;
      problem.n = out_in ? in_ : outs;
      problem.k = rows;
      problem.a = Operand::kTransposed;
      problem.store = Store::kAccumulate;
      MatmulArgs args;
      args.a = out_in ? dpart : x;
      args.b = out_in ? x : dpart;
      args.c = part.weight.gradient;
      Matmul(context, problem, args);
    }
    if (part.bias.trainable()) {
      AddColumnSums(context, dpart, part.bias.gradient.As<float>());
    }
    at += outs;
  }
}

}  // namespace headwise
