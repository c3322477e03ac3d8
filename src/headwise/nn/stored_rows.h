// A layer's weights that change, where they are many slices of one stored
// matrix in an order of their own (queries, keys and values head by head): put
// together, and their gradients given back, by rows at once. A product for each
// slice would be a sliver.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "headwise/context.h"
#include "headwise/nn/parameter.h"

namespace headwise {

class StoredRows {
 public:
  // weights: the matrices [rows, in] of a layer in its order; biases: theirs,
  // [rows], or absent. Null unless these are more than a few slices of one
  // tensor along its first axis, in all types that they are read in.
  static std::shared_ptr<const StoredRows> Of(
      const std::vector<Parameter>& weights,
      const std::vector<Parameter>& biases);

  // weight [rows, in], bias [rows] of all slices, in the layer's order.
  void Gather(Context& context, TensorView weight) const;
  void GatherBias(Context& context, TensorView bias) const;
  // Gradients in the layer's order, f32, added to those of what is trained.
  void AddGradient(Context& context, ConstTensorView weight) const;
  void AddBiasGradient(Context& context, ConstTensorView bias) const;
  bool trains_weight() const { return static_cast<bool>(weight_.gradient); }
  bool trains_bias() const { return static_cast<bool>(bias_.gradient); }

 private:
  // Stored tensors [all rows, in] and [all rows, 1].
  struct Table {
    ConstTensorView values = {};
    TensorView gradient = {};
  };
  StoredRows() = default;
  static Table TableOf(const Parameter& slice);
  ConstTensorView Order(Context& context) const;
  void AddRows(Context& context, ConstTensorView rows, TensorView stored) const;

  Table weight_, bias_;
  std::vector<int32_t> order_;  // of the stored rows
  mutable std::once_flag copied_;
  mutable Tensor order_there_;  // the same on a device
};

}  // namespace headwise
