// One forward call of an attention layer: what it projected, and the call of
// the operator. Private to attention_layer.cc and attention_gates.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "headwise/nn/attention_layer.h"
#include "headwise/ops/copy/copy.h"

namespace headwise {

// Buffers and views of one call.
struct AttentionLayer::Projections {
  Temp memory;
  Temp cross_memory;
  Temp values;   // of keys that are values
  TensorView q;  // [1, T, H, D]
  TensorView k;  // [1, S, G, D]; null where a cross cache already holds them
  TensorView v;  // [1, S, G, E]
  bool cached = false;  // k and v have joined the cache
  // Keys and values that layers share.
  std::shared_ptr<SharedKeys::Layer> shared = nullptr;
};

// One call of the operator, and the memory that it points to.
struct AttentionLayer::Call {
  AttentionProblem problem;
  AttentionArgs args;
  std::vector<int32_t> key_lengths;
  std::vector<Temp> numbers;
  GateSaved gates;
  SpanSaved spans;
  OutputGateSaved output_gate;
  // Stands in for heads of gated channels and is not gated itself.
  ConstTensorView replacement;
  Temp lse;
  ConstTensorView cached_k, cached_v;  // of the cache, as wide as it is

  ConstTensorView Here(Context& context, const ConstTensorView& values) {
    Temp copy;
    const ConstTensorView view = OnDevice(context, values, copy);
    if (copy) numbers.push_back(std::move(copy));
    return view;
  }
  ConstTensorView Numbers(Context& context, std::span<const int32_t> values) {
    return Here(context, ViewOf(values));
  }
};

}  // namespace headwise
