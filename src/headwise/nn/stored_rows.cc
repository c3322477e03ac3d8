// Gathering and scattering of rows. Door: stored_rows.h.
#include "headwise/nn/stored_rows.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "headwise/ops/copy/copy.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/tensor/slice.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

// Fewer lie well as they are: queries, keys, values.
constexpr size_t kManySlices = 4;

// The tensor that a slice along the first axis is of, as [rows, width].
template <typename View>
View WholeOf(View slice, const Parameter::Within& within) {
  if (!slice) return slice;
  const int64_t width = slice.rank == 2 ? slice.shape[1] : 1;
  const int64_t before = within.first * slice.stride[0];
  View whole = Moved(slice, -before);
  whole.rank = 2;
  whole.shape[0] = within.whole.shape[0];
  whole.shape[1] = width;
  whole.stride[1] = 1;
  return whole;
}

bool AreSlicesOfOne(const std::vector<Parameter>& parameters) {
  const Parameter& first = parameters[0];
  return std::ranges::all_of(parameters, [&](const Parameter& one) {
    return one.within.whole && one.within.axis == 0 &&
           one.within.whole.data == first.within.whole.data &&
           one.trainable() == first.trainable() && !one.fixed();
  });
}

}  // namespace

StoredRows::Table StoredRows::TableOf(const Parameter& slice) {
  return {WholeOf(slice.operand(), slice.within),
          WholeOf(slice.gradient, slice.within)};
}

std::shared_ptr<const StoredRows> StoredRows::Of(
    const std::vector<Parameter>& weights,
    const std::vector<Parameter>& biases) {
  if (weights.size() <= kManySlices || !AreSlicesOfOne(weights)) return nullptr;
  const bool biased = static_cast<bool>(biases[0]);
  for (size_t i = 0; i < weights.size(); ++i) {
    const bool fits =
        static_cast<bool>(biases[i]) == biased &&
        (!biased || biases[i].within.first == weights[i].within.first);
    if (!fits) return nullptr;
  }
  if (biased && !AreSlicesOfOne(biases)) return nullptr;
  const std::shared_ptr<StoredRows> rows(new StoredRows);
  rows->weight_ = TableOf(weights[0]);
  if (biased) rows->bias_ = TableOf(biases[0]);
  for (const Parameter& weight : weights) {
    const size_t at = rows->order_.size();
    rows->order_.resize(at + static_cast<size_t>(weight.value.shape[0]));
    std::iota(rows->order_.begin() + static_cast<int64_t>(at),
              rows->order_.end(), static_cast<int32_t>(weight.within.first));
  }
  return rows;
}

ConstTensorView StoredRows::Order(Context& context) const {
  const ConstTensorView here = ViewOf(order_);
  if (context.device().is_cpu()) return here;
  std::call_once(copied_, [&] {
    order_there_ = ToDevice(context, here);
    context.Synchronize();  // other contexts may read
  });
  return std::as_const(order_there_).view();
}

void StoredRows::Gather(Context& context, TensorView weight) const {
  GatherRows(context, weight_.values, Order(context), weight);
}

void StoredRows::GatherBias(Context& context, TensorView bias) const {
  GatherRows(context, bias_.values, Order(context),
             Reshaped(bias, {bias.shape[0], 1}));
}

void StoredRows::AddGradient(Context& context, ConstTensorView weight) const {
  if (trains_weight()) AddRows(context, weight, weight_.gradient);
}

void StoredRows::AddBiasGradient(Context& context, ConstTensorView bias) const {
  if (!trains_bias()) return;
  AddRows(context, Reshaped(bias, {bias.shape[0], 1}), bias_.gradient);
}

// Each stored row stands once in the order.
void StoredRows::AddRows(Context& context, ConstTensorView rows,
                         TensorView stored) const {
  const ConstTensorView order = Order(context);
  const Temp sums(context, stored.type, {rows.shape[0], rows.shape[1]});
  GatherRows(context, stored, order, sums.view());
  AddTo(context, rows, sums.view());
  ScatterRows(context, sums.view(), order, stored);
}

}  // namespace headwise
