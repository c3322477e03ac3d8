// For tests: a model of three layers that differ in the widths of their heads
// and in what they have beyond queries, keys and values. The third attends to
// the keys and values of the first.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "headwise/model/model.h"
#include "headwise/nn/attention_for_test.h"

namespace headwise::model_tests {

inline nn_test::Case LayerKind(int64_t layer) {
  nn_test::Case c;
  if (layer == 1) {
    c = {.heads = 2, .groups = 1, .dim = 6, .value = 6};
    c.keys_are_values = c.normed = true;
    c.gate = nn_test::Gate::kHead;
    return c;
  }
  c.value = 6;
  c.turned = true;
  c.sinks = c.shares = layer == 0;
  if (layer == 0) return c;
  c.heads = 2;
  c.keys_of = 0;
  c.gate = nn_test::Gate::kChannel;
  return c;
}

inline Model::Parts PartsOfLayerKinds(nn_test::TestValues& values) {
  constexpr int64_t kWidth = nn_test::kWidth, kVocabulary = 11;
  Model::Parts parts;
  ModelConfig& config = parts.config;
  config.model_type = "kinds";
  config.width = kWidth;
  config.head_dim = 4;
  config.vocabulary = kVocabulary;
  config.context = 16;
  config.hidden = 7;
  config.causal = true;
  const auto norm = [&](const std::string& name) {
    return Norm(NormKind::kRms, 1e-5f, values.Make(name, {kWidth}, 1), {});
  };
  parts.stack.embeddings.tokens = values.Make("tokens", {kVocabulary, kWidth});
  for (int64_t i = 0; i < 3; ++i) {
    const nn_test::Case c = LayerKind(i);
    const std::string name = "layer." + std::to_string(i);
    config.layers.push_back({.heads = c.heads,
                             .kv_heads = c.groups,
                             .head_dim = c.dim,
                             .value_dim = c.value,
                             .keys_of = c.keys_of});
    parts.stack.blocks.emplace_back(
        name,
        std::vector{
            AttentionStep(
                NormPlace::kPre, norm(name + ".n1"),
                nn_test::MakeLayer(values, c, name + ".attention", i)),
            MlpStep(NormPlace::kPre, norm(name + ".n2"),
                    Mlp(Activation::kGeluTanh, Linear(),
                        values.MakeLinear(name + ".up", {7}, kWidth),
                        values.MakeLinear(name + ".down", {kWidth}, 7)))});
  }
  parts.stack.final_norm = norm("final");
  parts.head.vocabulary = values.MakeLinear("head", {kVocabulary}, kWidth);
  return parts;
}

}  // namespace headwise::model_tests
