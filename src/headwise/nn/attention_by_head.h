// Attention of a mixture of heads, where each token chooses some: rows are
// grouped by head, so that queries are projected, attended with and mixed only
// for the tokens that chose a head. Keys and values are made for all tokens,
// since any later one may read them. The result is that of all heads with gates
// of 0, to rounding.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "headwise/attention.h"
#include "headwise/context.h"
#include "headwise/nn/attention_layer.h"
#include "headwise/nn/head_rows.h"
#include "headwise/nn/linear.h"
#include "headwise/tensor/temp.h"

namespace headwise {

// One call, as its backward needs it. R rows, S keys of all sequences.
struct HeadRowsRun {
  GateSaved gates;
  HeadRows rows;
  Temp row_gates;          // [R, 1]
  Temp q, q_unnormed;      // [R, D]
  Temp kv, kv_unnormed;    // [S, G·D + G·E]
  Temp k, v;               // [H·S, D], [H·S, E]
  Temp out, ungated, lse;  // [R, E] twice, [R]
  HeadNormsSaved query_norm, key_norm;
  AttentionProblem problem;
  AttentionArgs args;
};

class AttentionByHead {
 public:
  // Null for a layer that is no mixture, or one that cannot be run so.
  static std::shared_ptr<const AttentionByHead> Of(
      const AttentionLayerConfig& config, const AttentionWeights& weights);
  AttentionByHead(const AttentionLayerConfig& config,
                  const AttentionWeights& weights);

  // Whether a call is run by rows: on the CPU, sequences long enough to gain,
  // and nobody who wants to see every head.
  bool Takes(const Context& context, const AttentionInput& input) const;

  // As those of AttentionLayer.
  void Forward(Context& context, const AttentionInput& input, TensorView y,
               Store store) const;
  void Backward(Context& context, const AttentionInput& input,
                const HeadRowsRun& run, ConstTensorView dy, TensorView dx,
                TensorView dmemory) const;

 private:
  int64_t value_dim() const {
    return config_.value_dim > 0 ? config_.value_dim : config_.head_dim;
  }
  bool cross() const { return static_cast<bool>(weights_.of_memory); }
  const AttentionMask& MaskOf(const AttentionInput& input) const {
    return input.mask != nullptr ? *input.mask : config_.mask;
  }
  RowPlaces PlacesOf(const AttentionInput& input) const;
  TensorView KeysOf(const TensorView& kv) const;
  TensorView ValuesOf(const TensorView& kv) const;
  void Turn(Context& context, const AttentionInput& input,
            ConstTensorView positions, TensorView x,
            RopeDirection direction) const;
  void ProjectKeys(Context& context, const AttentionInput& input,
                   HeadRowsRun& run) const;
  void LayKeys(Context& context, const AttentionInput& input,
               HeadRowsRun& run) const;
  void LayCache(Context& context, const AttentionInput& input,
                HeadRowsRun& run) const;
  void ProjectQueries(Context& context, const AttentionInput& input,
                      HeadRowsRun& run) const;
  void Attend(Context& context, const AttentionInput& input,
              HeadRowsRun& run) const;
  void Mix(Context& context, const HeadRowsRun& run, TensorView y,
           Store store) const;
  struct Gradients;
  void MixBackward(Context& context, const HeadRowsRun& run, ConstTensorView dy,
                   Gradients& g) const;
  void KeysBackward(Context& context, const AttentionInput& input,
                    const HeadRowsRun& run, Gradients& g, TensorView dx,
                    TensorView dmemory) const;
  void QueriesBackward(Context& context, const AttentionInput& input,
                       const HeadRowsRun& run, Gradients& g,
                       TensorView dx) const;

  AttentionLayerConfig config_;
  AttentionWeights weights_;
  std::vector<Linear> queries_, outputs_;  // of each head
  Linear kv_;
};

}  // namespace headwise
