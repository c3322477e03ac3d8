// Parts of a linear layer's inputs and outputs as layers of their own, and its
// bias alone. Door: linear.h.
#include <algorithm>
#include <utility>

#include "headwise/nn/linear.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

Parameter RangeOf(const Parameter& whole, int axis, int64_t begin,
                  int64_t end) {
  Parameter part = whole;
  part.value = Slice(whole.value, axis, begin, end);
  part.gradient = Slice(whole.gradient, axis, begin, end);
  part.compute = Slice(whole.compute, axis, begin, end);
  part.mapped = false;  // the rest of the pages is not ours to give back
  return part;
}

}  // namespace

Linear Linear::OutputRange(int64_t begin, int64_t end) const {
  const int axis = layout_ == WeightLayout::kOutIn ? 0 : 1;
  std::vector<Part> parts;
  int64_t at = 0;
  for (const Part& part : parts_) {
    const int64_t first = std::clamp<int64_t>(begin - at, 0, Outs(part));
    const int64_t last = std::clamp<int64_t>(end - at, 0, Outs(part));
    at += Outs(part);
    if (first == last) continue;
    parts.push_back({RangeOf(part.weight, axis, first, last),
                     RangeOf(part.bias, 0, first, last)});
  }
  return {std::move(parts), layout_};
}

Linear Linear::InputRange(int64_t begin, int64_t end) const {
  const int axis = layout_ == WeightLayout::kOutIn ? 1 : 0;
  std::vector<Part> parts;
  for (const Part& part : parts_) {
    parts.push_back({RangeOf(part.weight, axis, begin, end), {}});
  }
  return {std::move(parts), layout_};
}

void Linear::ForwardBias(Context& context, TensorView y, Store store) const {
  const bool adds = store == Store::kAccumulate;
  if (!has_bias_) {
    if (!adds) Fill(context, 0, y);
    return;
  }
  const Temp bias(context, y.type, {out_});
  JoinBias(context, bias.view());
  const ConstTensorView rows =
      Broadcast(ConstTensorView(bias.view()), Shape{y.shape[0], out_});
  adds ? AddTo(context, rows, y) : Copy(context, rows, y);
}

void Linear::BackwardBias(Context& context, ConstTensorView dy) const {
  int64_t at = 0;
  for (const Part& part : parts_) {
    const ConstTensorView own = Columns(dy, at, at + Outs(part));
    if (part.bias.trainable()) AddColumnSums(context, own, part.bias.gradient);
    at += Outs(part);
  }
}

}  // namespace headwise
