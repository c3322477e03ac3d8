// The output matrix of an attention layer that loses heads, in double, and the
// way back into a checkpoint's tensors.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/heads/pruning/remove.h"
#include "headwise/tensor/matrix.h"

namespace headwise {

struct LayerOutput {
  std::string site;
  std::vector<std::string> others;  // sites of layers that share the matrix
  Matrix weight;                    // [heads · E, out]
  std::vector<double> bias;         // [out]; 0 where there is none
  bool has_bias = false;
  std::vector<int64_t> kept;     // rows of the weight, ascending
  std::vector<int64_t> removed;  // the others
  std::string weight_name, bias_name;
  bool out_first = false;  // stored as [out, in]
};

// Of every layer that loses heads; of layers that share a matrix the first.
std::vector<LayerOutput> OutputsOf(Context& context, const Model& model,
                                   std::span<const HeadRef> removed);

// The kept rows with `change` [kept, out] added, in the stored type; and, where
// the layer has a bias or `bias` is not 0, the bias with this added, in f32.
void StoreOutput(const LayerOutput& layer, const Matrix& change,
                 const std::vector<double>& bias, ChangedTensors& changed);

// The name of an output's bias, whether there is one or not.
std::string BiasName(const Linear& output);

}  // namespace headwise
