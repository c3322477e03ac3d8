// A model that is to be written for other programs: what they ask about it,
// and what none of them takes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "headwise/context.h"
#include "headwise/model/checkpoint.h"
#include "headwise/tensor.h"

namespace headwise {

// The numbers of heads that all layers have.
struct UniformHeads {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  friend bool operator==(const UniformHeads&, const UniformHeads&) = default;
};
// Nothing where layers differ, or one has none.
std::optional<UniformHeads> FindUniformHeads(const ModelConfig& config);

// Whether a self-attention layer adds a bias behind W_O, or behind W_Q, W_K or
// W_V.
bool HasOutputBias(const Model& model);
bool HasInputBias(const Model& model);
// The same of its feed-forward half.
bool HasMlpBias(const Model& model);
// Whether a layer looks back through a window.
bool HasWindow(const ModelConfig& config);

// Throws Error(kUnsupported) for what no target knows: gates and learned spans.
void RequireOpenHeads(const Model& model, const std::string& folder);
// The same, and for what layers have beyond queries, keys and values (by their
// names), where a target knows plain ones alone.
void RequirePlain(const Model& model, const std::string& folder);
// The same for heads of several widths, where a format has one number.
void RequireOneWidth(const Model& model, const std::string& folder);

// A dense copy on the host. Throws Error(kInvalidArgument) where a finite
// number is none in the new type.
Tensor Converted(Context& context, const ConstTensorView& view, DType type,
                 const std::string& name);

}  // namespace headwise
