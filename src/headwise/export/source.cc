// What targets ask about a model. Door: source.h.
#include "headwise/export/source.h"

#include <algorithm>
#include <string>

#include "headwise/error.h"
#include "headwise/model/head_ref.h"
#include "headwise/ops/copy/copy.h"

namespace headwise {
namespace {

constexpr uint16_t kF16Exponent = 0x7c00;

}  // namespace

std::optional<UniformHeads> FindUniformHeads(const ModelConfig& config) {
  if (config.layers.empty()) return std::nullopt;
  const LayerShape& first = config.layers[0];
  const UniformHeads all = {first.heads, first.kv_heads};
  if (all.heads == 0) return std::nullopt;
  for (const LayerShape& layer : config.layers) {
    if (UniformHeads{layer.heads, layer.kv_heads} != all) return std::nullopt;
  }
  return all;
}

bool HasOutputBias(const Model& model) {
  const auto layers = AttentionLayers(model, AttentionKind::kSelf);
  return std::any_of(layers.begin(), layers.end(), [](const auto* layer) {
    return layer->output().has_bias();
  });
}

bool HasInputBias(const Model& model) {
  const auto layers = AttentionLayers(model, AttentionKind::kSelf);
  return std::any_of(layers.begin(), layers.end(), [](const auto* layer) {
    return layer->inputs()[0]->has_bias();
  });
}

bool HasMlpBias(const Model& model) {
  const auto& blocks = model.stack().blocks;
  return std::any_of(blocks.begin(), blocks.end(), [](const Block& block) {
    const BlockStep* step = block.Find(StepKind::kFeedForward);
    return step != nullptr &&
           (step->mlp.in().has_bias() || step->mlp.down().has_bias());
  });
}

bool HasWindow(const ModelConfig& config) {
  return std::any_of(config.layers.begin(), config.layers.end(),
                     [](const LayerShape& layer) { return layer.window > 0; });
}

void RequireOpenHeads(const Model& model, const std::string& folder) {
  const ModelConfig& config = model.config();
  const char* found = config.gates.kind != GateKind::kOpen ? "gates of heads"
                      : config.spans.ramp > 0              ? "learned spans"
                                                           : nullptr;
  if (found == nullptr) return;
  throw Error(ErrorCode::kUnsupported,
              {folder, "a model whose heads are all open", found,
               "other programs know no such thing"});
}

void RequirePlain(const Model& model, const std::string& folder) {
  RequireOpenHeads(model, folder);
  for (const AttentionKind kind :
       {AttentionKind::kSelf, AttentionKind::kDecoder, AttentionKind::kCross}) {
    for (const AttentionLayer* layer : AttentionLayers(model, kind)) {
      const char* special = layer->Special();
      if (special == nullptr) special = layer->BiasName();
      if (layer->config().soft_cap != 0) special = "scores with a soft cap";
      if (special == nullptr) continue;
      throw Error(ErrorCode::kUnsupported,
                  {folder, "attention of plain queries, keys and values",
                   layer->site().name + " with " + special, ""});
    }
  }
}

void RequireOneWidth(const Model& model, const std::string& folder) {
  const int64_t width = model.config().head_dim;
  for (const AttentionLayer* layer :
       AttentionLayers(model, AttentionKind::kSelf)) {
    const int64_t keys = layer->config().head_dim, values = layer->value_dim();
    if (keys == width && values == width) continue;
    throw Error(ErrorCode::kUnsupported,
                {folder,
                 "heads of " + std::to_string(width) +
                     " dimensions, keys and values alike, in every layer",
                 layer->site().name + " with keys of " + std::to_string(keys) +
                     " and values of " + std::to_string(values),
                 "the format has one number for all"});
  }
}

Tensor Converted(Context& context, const ConstTensorView& view, DType type,
                 const std::string& name) {
  Tensor result(type,
                std::span(view.shape.data(), static_cast<size_t>(view.rank)));
  if (result.size() == 0) return result;
  Copy(context, view, result.view());
  if (type != DType::kF16 || view.type == DType::kF16) return result;
  const uint16_t* bits = result.As<uint16_t>();
  for (int64_t i = 0; i < result.size(); ++i) {
    if ((bits[i] & kF16Exponent) != kF16Exponent) continue;
    throw Error(ErrorCode::kInvalidArgument,
                {name, "numbers that f16 can hold, below 65520",
                 "one at place " + std::to_string(i) + " that becomes infinite",
                 "take bf16 or f32"});
  }
  return result;
}

}  // namespace headwise
