// Parts of a linear layer's inputs and outputs as layers of their own, and its
// bias alone. Door: linear.h.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "headwise/error.h"
#include "headwise/nn/linear.h"
#include "headwise/nn/stored_rows.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/tensor/places.h"
#include "headwise/tensor/slice.h"

namespace headwise {

// use(part, first, last) for the outputs of each part that lie in
// [begin, end), as the part counts them.
template <typename Use>
void Linear::ForOutputs(int64_t begin, int64_t end, const Use& use) const {
  int64_t at = 0;
  for (const Part& part : parts_) {
    const int64_t first = std::clamp<int64_t>(begin - at, 0, Outs(part));
    const int64_t last = std::clamp<int64_t>(end - at, 0, Outs(part));
    at += Outs(part);
    if (first < last) use(part, first, last);
  }
}

Linear Linear::OutputRange(int64_t begin, int64_t end) const {
  std::vector<Part> parts;
  ForOutputs(begin, end, [&](const Part& part, int64_t first, int64_t last) {
    parts.push_back({SliceOf(part.weight, OutAxis(), first, last),
                     SliceOf(part.bias, 0, first, last)});
  });
  return {std::move(parts), layout_};
}

Linear Linear::InputRange(int64_t begin, int64_t end) const {
  const int axis = layout_ == WeightLayout::kOutIn ? 1 : 0;
  std::vector<Part> parts;
  for (const Part& part : parts_) {
    parts.push_back({SliceOf(part.weight, axis, begin, end), {}});
  }
  return {std::move(parts), layout_};
}

std::vector<StoredSlice> Linear::OutputSlices(int64_t begin,
                                              int64_t end) const {
  std::vector<StoredSlice> slices;
  ForOutputs(begin, end, [&](const Part& part, int64_t first, int64_t last) {
    const auto add = [&](const Parameter& parameter, int along) {
      if (!parameter) return;
      slices.push_back(
          {&parameter, along, parameter.within.first + first, last - first});
    };
    add(part.weight, OutAxis());
    add(part.bias, 0);
  });
  return slices;
}

std::vector<StoredSlice> Linear::InputSlices(int64_t begin, int64_t end) const {
  const int axis = layout_ == WeightLayout::kOutIn ? 1 : 0;
  std::vector<StoredSlice> slices;
  for (const Part& part : parts_) {
    const auto& within = part.weight.within;
    const int64_t first =
        within.whole && within.axis == axis ? within.first : 0;
    slices.push_back({&part.weight, axis, first + begin, end - begin});
  }
  return slices;
}

namespace {

// Slices of one tensor, one behind the other. None: an absent parameter.
Parameter Joined(const std::vector<StoredSlice>& slices, StoredMatrix& matrix) {
  if (slices.empty()) return {};
  const Parameter& first = *slices[0].of;
  std::vector<int64_t> places;
  for (const StoredSlice& slice : slices) {
    if (slice.of->name != first.name) {
      throw Error(ErrorCode::kUnsupported,
                  {first.name, "outputs that are stored in one tensor",
                   "others in \"" + slice.of->name + "\"", ""});
    }
    for (int64_t i = 0; i < slice.count; ++i) {
      places.push_back(slice.first + i);
    }
  }
  const auto copy = std::make_shared<const Tensor>(
      Select(first.stored(), slices[0].axis, places, first.name));
  matrix.copies.push_back(copy);
  return {.name = first.name + "[" + std::to_string(places.front()) + "…" +
                  std::to_string(places.back()) + "]",
          .value = copy->view()};
}

}  // namespace

StoredMatrix Linear::Stored(int64_t begin, int64_t end) const {
  int64_t at = 0;
  for (const Part& part : parts_) {
    if (at == begin && at + Outs(part) == end) {
      return {part.weight, part.bias, layout_};
    }
    at += Outs(part);
  }
  StoredMatrix matrix;
  matrix.layout = layout_;
  std::vector<StoredSlice> weights, biases;
  for (const StoredSlice& slice : OutputSlices(begin, end)) {
    (slice.of->value.rank == 2 ? weights : biases).push_back(slice);
  }
  matrix.weight = Joined(weights, matrix);
  matrix.bias = Joined(biases, matrix);
  return matrix;
}

std::vector<const Parameter*> Linear::parameters() const {
  std::vector<const Parameter*> all;
  for (const Part& part : parts_) {
    all.push_back(&part.weight);
    if (part.bias) all.push_back(&part.bias);
  }
  return all;
}

std::vector<const Parameter*> Linear::WeightsWithoutBias() const {
  std::vector<const Parameter*> weights;
  for (const Part& part : parts_) {
    if (!part.bias) weights.push_back(&part.weight);
  }
  return weights;
}

const Linear::Part& Linear::Only() const {
  if (parts_.size() == 1) return parts_[0];
  throw Error(ErrorCode::kUnsupported,
              {parts_.empty() ? "linear layer" : parts_[0].weight.name,
               "a layer of one matrix",
               std::to_string(parts_.size()) + " side by side", ""});
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
  if (rows_ != nullptr && rows_->trains_bias()) {
    const Temp sums(context, DType::kF32, {out_});
    Fill(context, 0, sums.view());
    AddColumnSums(context, dy, sums.view());
    return rows_->AddBiasGradient(context, sums.view());
  }
  int64_t at = 0;
  for (const Part& part : parts_) {
    const ConstTensorView own = Columns(dy, at, at + Outs(part));
    if (part.bias.trainable()) AddColumnSums(context, own, part.bias.gradient);
    at += Outs(part);
  }
}

}  // namespace headwise
