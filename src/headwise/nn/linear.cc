// Linear layers over products, and their backward. Door: linear.h.
#include "headwise/nn/linear.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/error.h"
#include "headwise/nn/projection.h"
#include "headwise/nn/release.h"
#include "headwise/tensor/unaligned.h"

namespace headwise {
namespace {

// Columns [begin, begin + count) of a matrix.
template <typename View>
View Columns(View matrix, int64_t begin, int64_t count) {
  matrix.data = matrix.template As<float>() + begin;
  matrix.shape[1] = count;
  return matrix;
}

// to = from, or to += from: matrices of one shape with a last stride of 1.
void MoveRows(Context& context, const ConstTensorView& from,
              const TensorView& to, Store store) {
  constexpr int64_t kRows = 32;  // of a task
  context.pool().ParallelFor(
      (from.shape[0] + kRows - 1) / kRows, [&](int64_t task, int) {
        const int64_t end = std::min(from.shape[0], (task + 1) * kRows);
        for (int64_t r = task * kRows; r < end; ++r) {
          const float* x = from.As<float>() + r * from.stride[0];
          float* y = to.As<float>() + r * to.stride[0];
          if (store == Store::kOverwrite) {
            std::copy_n(x, from.shape[1], y);
          } else {
            for (int64_t i = 0; i < from.shape[1]; ++i) y[i] += x[i];
          }
        }
      });
}

// The values as f32: where they lie, or in `copy`.
ConstTensorView AsF32(const Parameter& parameter, Tensor& copy) {
  if (parameter.value.type == DType::kF32 && IsAligned(parameter.value)) {
    return parameter.value;
  }
  copy = ToF32(parameter);
  return std::as_const(copy).view();
}

}  // namespace

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
    aligned_ = aligned_ && IsAligned(w);
    if (part.bias && (part.bias.value.rank != 1 ||
                      part.bias.value.shape[0] != w.shape[out_axis])) {
      throw Error(
          ErrorCode::kInvalidArgument,
          {part.bias.name, "[" + std::to_string(w.shape[out_axis]) + "]",
           ToString(part.bias.value), ""});
    }
  }
  for (const Part& part : parts_) values_.push_back(part.weight.value);
  if (parts_.empty() || parts_[0].weight.trainable()) return;
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
  bias_->values = std::move(bias);
}

template <typename View>
View Linear::PartOf(View whole, int64_t begin, int64_t outs) const {
  if (layout_ == WeightLayout::kInOut) return Columns(whole, begin, outs);
  whole.data = whole.template As<float>() + begin * whole.stride[0];
  whole.shape[0] = outs;
  return whole;
}

ConstTensorView Linear::WholeWeight(Context& context, Scratch& copy) const {
  Tensor values;
  const bool out_in = layout_ == WeightLayout::kOutIn;
  if (parts_.size() == 1 && aligned_ &&
      parts_[0].weight.value.type == DType::kF32) {
    return parts_[0].weight.value;
  }
  copy = context.workspace().TakeArray<float>(in_ * out_);
  const TensorView whole = out_in ? View(copy.As<float>(), {out_, in_})
                                  : View(copy.As<float>(), {in_, out_});
  int64_t at = 0;
  for (const Part& part : parts_) {
    MoveRows(context, AsF32(part.weight, values), PartOf(whole, at, Outs(part)),
             Store::kOverwrite);
    at += Outs(part);
  }
  return whole;
}

void Linear::ForwardTrainable(Context& context, MatmulProblem& problem,
                              MatmulArgs& args) const {
  args.parts = values_;
  if (parts_.size() == 1) {
    args.bias = parts_[0].bias.value;
    return Matmul(context, problem, args);
  }
  std::vector<float> bias(out_);
  int64_t at = 0;
  for (const Part& part : parts_) {
    if (part.bias) {
      std::copy_n(part.bias.value.As<float>(), Outs(part), bias.data() + at);
      args.bias = View(std::as_const(bias).data(), {out_});
    }
    at += Outs(part);
  }
  Matmul(context, problem, args);
}

void Linear::Forward(Context& context, ConstTensorView x, TensorView y,
                     Store store) const {
  MatmulProblem problem = {
      .m = x.shape[0], .n = out_, .k = in_, .b = operand(), .store = store};
  MatmulArgs args = {.a = x, .c = y};
  if (!weights_) return ForwardTrainable(context, problem, args);
  std::call_once(bias_->once, [&] { PackBias(); });
  args.weights = weights_.get();
  args.bias = std::as_const(bias_->values).view();
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
  Scratch copy;
  MatmulProblem problem;
  problem.m = dy.shape[0];
  problem.n = in_;
  problem.k = out_;
  problem.b =
      layout_ == WeightLayout::kOutIn ? Operand::kPlain : Operand::kTransposed;
  problem.store = store;
  MatmulArgs args;
  args.a = dy;
  args.b = WholeWeight(context, copy);
  args.c = dx;
  Matmul(context, problem, args);
}

// dW += dyᵀ · x, or its transpose: one product, then shared out to the parts.
void Linear::BackwardWeights(Context& context, ConstTensorView x,
                             ConstTensorView dy) const {
  const bool out_in = layout_ == WeightLayout::kOutIn;
  const bool alone = parts_.size() == 1;
  Scratch memory;
  TensorView gradient = parts_[0].weight.gradient;
  if (!alone) {
    memory = context.workspace().TakeArray<float>(in_ * out_);
    gradient = out_in ? View(memory.As<float>(), {out_, in_})
                      : View(memory.As<float>(), {in_, out_});
  }
  const bool any =
      std::any_of(parts_.begin(), parts_.end(),
                  [](const Part& part) { return part.weight.trainable(); });
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
      MoveRows(context, PartOf(gradient, at, outs), part.weight.gradient,
               Store::kAccumulate);
    }
    if (part.bias.trainable()) {
      AddColumnSums(context, Columns(dy, at, outs),
                    part.bias.gradient.As<float>());
    }
    at += outs;
  }
}

}  // namespace headwise
