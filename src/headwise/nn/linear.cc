// Linear layers over products, and their backward. Door: linear.h.
#include "headwise/nn/linear.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "headwise/error.h"
#include "headwise/nn/release.h"
#include "headwise/nn/stored_rows.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/tensor/encoding.h"
#include "headwise/tensor/slice.h"
#include "headwise/tensor/unaligned.h"

namespace headwise {
namespace {

// Weights that change are laid side by side anew for a product of all parts.
// With fewer rows than these that costs more than a product of each part, whose
// sums are the same. Gradients: one slice of any product's depth.
constexpr int64_t kFewRows = 256;
constexpr int64_t kFewGradientRows = 64;

// One product a part, into its columns of y.
void ForwardParts(Context& context, const Linear& linear,
                  const ConstTensorView& x, const TensorView& y, Store store) {
  const bool out_in = linear.layout() == WeightLayout::kOutIn;
  int64_t at = 0;
  for (const Linear::Part& part : linear.parts()) {
    const int64_t outs = part.weight.value.shape[out_in ? 0 : 1];
    Matmul(context,
           {.m = x.shape[0],
            .n = outs,
            .k = linear.in(),
            .b = out_in ? Operand::kTransposed : Operand::kPlain,
            .store = store},
           {.a = x,
            .b = part.weight.operand(),
            .bias = part.bias.operand(),
            .c = Columns(y, at, at + outs)});
    at += outs;
  }
}

// The first of `parts` grown to the shape of all, if they lie end to end.
template <typename View>
View EndToEnd(const std::vector<View>& parts, const Shape& whole) {
  int64_t rows = 0;
  for (const View& part : parts) {
    const bool follows =
        part && IsDense(part) && part.type == parts[0].type &&
        part.data == Moved(parts[0], rows * parts[0].shape[1]).data;
    if (!follows) return {};
    rows += part.shape[0];
  }
  return {parts[0].data, parts[0].type, whole, parts[0].device};
}

// dW = or += dyᵀ · x, or its transpose.
void WeightGradient(Context& context, WeightLayout layout,
                    const ConstTensorView& x, const ConstTensorView& dy,
                    const TensorView& dw, Store store) {
  const bool out_in = layout == WeightLayout::kOutIn;
  Matmul(context,
         {.m = dw.shape[0],
          .n = dw.shape[1],
          .k = dy.shape[0],
          .a = Operand::kTransposed,
          .store = store},
         {.a = out_in ? dy : x, .b = out_in ? x : dy, .c = dw});
}

// No product reads blocks.
void RequirePlain(const Linear::Part& part) {
  for (const Parameter* own : {&part.weight, &part.bias}) {
    if (IsPlain(own->value.type)) continue;
    throw Error(ErrorCode::kUnsupported,
                {own->name, "f32, bf16 or f16 for products",
                 ToString(own->value), "make it f32 first"});
  }
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
    RequirePlain(part);
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
  if (parts_.empty()) return;
  if (!parts_[0].weight.fixed()) {
    FindWhole();
    FindRows();
    return;
  }
  std::vector<Parameter> read;
  for (const Part& part : parts_) read.push_back(part.weight);
  weights_ = Prepare(values_, operand(), [read = std::move(read)] {
    for (const Parameter& weight : read) ReleaseWeight(weight);
  });
}

void Linear::FindWhole() {
  if (layout_ != WeightLayout::kOutIn || parts_.size() == 1 ||
      values_[0].device.is_cpu()) {
    return;
  }
  std::vector<TensorView> gradients;
  for (const Part& part : parts_) gradients.push_back(part.weight.gradient);
  whole_ = EndToEnd(values_, WholeShape());
  whole_gradient_ = EndToEnd(gradients, WholeShape());
}

void Linear::FindRows() {
  if (layout_ != WeightLayout::kOutIn || whole_) return;
  std::vector<Parameter> weights, biases;
  for (const Part& part : parts_) {
    weights.push_back(part.weight);
    biases.push_back(part.bias);
  }
  rows_ = StoredRows::Of(weights, biases);
}

int64_t Linear::stored_bytes() const {
  int64_t bytes = 0;
  for (const Part& part : parts_) {
    bytes += BytesOf(part.weight.value) + BytesOf(part.bias.value);
  }
  return bytes;
}

// The biases of all parts side by side; those of parts without are 0.
void Linear::JoinBias(Context& context, const TensorView& to) const {
  if (rows_ != nullptr) return rows_->GatherBias(context, to);
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
  if (whole_ && whole_.type == type) return whole_;
  if (parts_.size() == 1 && aligned_ && values_[0].type == type &&
      values_[0].device == context.device()) {
    return values_[0];
  }
  copy = Temp(context, type, WholeShape());
  if (rows_ != nullptr) {
    rows_->Gather(context, copy.view());
    return copy.view();
  }
  int64_t at = 0;
  for (const Part& part : parts_) {
    Copy(context, part.weight.operand(), PartOf(copy.view(), at, Outs(part)));
    at += Outs(part);
  }
  return copy.view();
}

void Linear::Run(Context& context, MatmulArgs args, Store store,
                 Epilogue epilogue) const {
  const int64_t rows = args.a.shape[0];
  if (epilogue == Epilogue::kNone && !weights_ && !whole_ && !rows_ &&
      parts_.size() > 1 && rows < kFewRows) {
    return ForwardParts(context, *this, args.a, args.c, store);
  }
  const MatmulProblem problem = {.m = rows,
                                 .n = out_,
                                 .k = in_,
                                 .b = operand(),
                                 .store = store,
                                 .epilogue = epilogue};
  Temp joined, gathered;
  if (weights_) {
    args.weights = weights_.get();
    std::call_once(bias_->once, [&] {
      if (!has_bias_) return;
      bias_->values = Tensor(context, args.c.type, {out_});
      JoinBias(context, bias_->values.view());
      context.Synchronize();  // other contexts may read
    });
    args.bias = std::as_const(bias_->values).view();
  } else {
    if (whole_ || rows_) {
      args.b = WholeWeight(context, values_[0].type, gathered);
    } else {
      args.parts = values_;
    }
    const ConstTensorView own = parts_[0].bias.operand();
    const bool fits = own.type == DType::kF32 || own.type == args.c.type;
    if (parts_.size() == 1 && fits) {
      args.bias = own;
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
void Linear::RunBackward(Context& context, MatmulArgs args, Store store,
                         Epilogue epilogue) const {
  Temp copy;
  MatmulProblem problem;
  problem.m = args.a.shape[0];
  problem.n = in_;
  problem.k = out_;
  problem.b =
      layout_ == WeightLayout::kOutIn ? Operand::kPlain : Operand::kTransposed;
  problem.store = store;
  problem.epilogue = epilogue;
  args.b = WholeWeight(context, args.a.type, copy);
  Matmul(context, problem, args);
}

void Linear::BackwardRows(Context& context, ConstTensorView x,
                          ConstTensorView dy) const {
  if (rows_->trains_weight()) {
    const Temp whole(context, DType::kF32, WholeShape());
    WeightGradient(context, layout_, x, dy, whole.view(), Store::kOverwrite);
    rows_->AddGradient(context, whole.view());
  }
  BackwardBias(context, dy);
}

// One product, then shared out to the parts, or one a part.
void Linear::BackwardWeights(Context& context, ConstTensorView x,
                             ConstTensorView dy) const {
  if (rows_ != nullptr) return BackwardRows(context, x, dy);
  const bool apart = parts_.size() == 1 || dy.shape[0] <= kFewGradientRows;
  const bool any =
      !whole_gradient_ &&
      std::any_of(parts_.begin(), parts_.end(),
                  [](const Part& part) { return part.weight.trainable(); });
  if (whole_gradient_) {
    WeightGradient(context, layout_, x, dy, whole_gradient_,
                   Store::kAccumulate);
  }
  Temp whole;
  if (any && !apart) {
    whole = Temp(context, DType::kF32, WholeShape());
    WeightGradient(context, layout_, x, dy, whole.view(), Store::kOverwrite);
  }
  int64_t at = 0;
  for (const Part& part : parts_) {
    const int64_t outs = Outs(part);
    const ConstTensorView own = Columns(dy, at, at + outs);
    if (part.weight.trainable() && !whole_gradient_) {
      apart ? WeightGradient(context, layout_, x, own, part.weight.gradient,
                             Store::kAccumulate)
            : AddTo(context, PartOf(whole.view(), at, outs),
                    part.weight.gradient);
    }
    if (part.bias.trainable()) AddColumnSums(context, own, part.bias.gradient);
    at += outs;
  }
}

}  // namespace headwise
