// Gemma 4 (2026), its text models: decoders with norms around both halves,
// heads of two widths (of layers with a window, and of those that see all),
// norms of queries, keys and values, scores that are not divided, and a factor
// of each layer's result. Keys may be values too, and the last layers may
// attend to keys and values of earlier ones. Door: ../family.h.
#include <array>
#include <cmath>

#include "headwise/model/family.h"
#include "headwise/model/family/decoder.h"
#include "headwise/model/rope_settings.h"

namespace headwise {
namespace {

constexpr const char* kGemma4Kinds[] = {"full_attention", "sliding_attention"};

// What no step computes yet.
void RequireKnownGemma4(const ConfigReader& reader) {
  reader.Require("use_bidirectional_attention", nullptr);
  reader.Require("enable_moe_block", false,
                 "mixtures beside a dense half are not run");
  if (reader.Count("hidden_size_per_layer_input", 256) != 0) {
    reader.Fail("hidden_size_per_layer_input", "0",
                "inputs of each layer beside the stream are not run");
  }
}

std::vector<RopeConfig> ReadGemma4Ropes(const ConfigReader& reader,
                                        int64_t head_dim, int64_t global) {
  const std::array<RopeKind, 2> kinds = {
      {{.layers = kGemma4Kinds[0],
        .head_dim = global,
        .keys = {.other_base = 1e6, .shares = false}},
       {.layers = kGemma4Kinds[1],
        .head_dim = head_dim,
        .keys = {.shares = false}}}};
  if (reader.Has("rope_parameters")) return ReadRopes(reader, kinds);
  RopeConfig all, near;
  all.head_dim = global;
  all.base = 1e6;
  all.scaling = RopeScaling::kProportional;
  all.turned = 2 * static_cast<int64_t>(static_cast<double>(global) / 8);
  near.head_dim = head_dim;
  return {all, near};
}

// Layers that see all: their heads and groups.
void ReadFullLayer(const ConfigReader& reader, int64_t global,
                   LayerShape& layer) {
  layer.head_dim = global;
  if (!reader.Flag("attention_k_eq_v", false)) return;
  layer.keys_are_values = true;
  if (reader.Has("kv_heads_per_layer")) return;
  layer.kv_heads = reader.Size({"num_global_key_value_heads"});
  if (layer.heads % layer.kv_heads == 0) return;
  reader.Fail("num_global_key_value_heads", "a divisor of the heads");
}

// Layers from `first` on attend to the keys of the last one before of their
// kind.
void ShareKeys(const ConfigReader& reader, size_t first, ModelConfig& config) {
  const bool wide = reader.Flag("use_double_wide_mlp", false);
  for (size_t i = first; i < config.layers.size(); ++i) {
    LayerShape& layer = config.layers[i];
    for (size_t j = 0; j < first; ++j) {
      const bool same = (config.layers[j].window > 0) == (layer.window > 0);
      if (same) layer.keys_of = static_cast<int64_t>(j);
    }
    if (layer.keys_of < 0) {
      reader.Fail("num_kv_shared_layers",
                  "fewer layers, so that each has one of its kind before them");
    }
    layer.keys_are_values = false;
    if (wide) layer.hidden = 2 * config.hidden;
  }
}

ModelConfig ReadGemma4(const ConfigReader& reader) {
  RequireKnownGemma4(reader);
  ModelConfig config =
      ReadDecoder(reader, {.activation = "hidden_activation",
                           .other_activation = "gelu_pytorch_tanh",
                           .tied = true,
                           .other_kv_heads = 4,
                           .head_dim = 256});
  const int64_t global = reader.Size({"global_head_dim"}, 512);
  config.embedding_scale = std::sqrt(static_cast<float>(config.width));
  config.attention_bias = reader.Flag("attention_bias", false);
  config.output_bias = config.attention_bias;
  config.ropes = ReadGemma4Ropes(reader, config.head_dim, global);
  const bool differ = global != config.head_dim;
  if (differ && config.ropes[0].scaling != RopeScaling::kProportional) {
    reader.Fail("rope_type", "proportional for full_attention",
                "transformers turns heads of global_head_dim by no other");
  }
  const auto count = static_cast<int64_t>(config.layers.size());
  ReadWindows(
      reader, reader.Size({"sliding_window"}, 512), "",
      [](int64_t layer) { return (layer + 1) % 6 != 0; }, config);
  config.layers.back().window = 0;
  for (LayerShape& layer : config.layers) {
    layer.scale = 1;
    layer.rope = layer.window > 0 ? 1 : 0;
    if (layer.window == 0) ReadFullLayer(reader, global, layer);
  }
  const int64_t shared = reader.Count("num_kv_shared_layers", 0);
  if (shared >= count) {
    reader.Fail("num_kv_shared_layers", "fewer than num_hidden_layers");
  }
  ShareKeys(reader, static_cast<size_t>(count - shared), config);
  config.logit_cap =
      static_cast<float>(reader.Number("final_logit_softcapping", 0));
  if (!(config.logit_cap >= 0)) {
    reader.Fail("final_logit_softcapping", "a positive number, or null");
  }
  return config;
}

class Gemma4Builder : public DecoderBuilder {
 public:
  using DecoderBuilder::DecoderBuilder;

 private:
  void Complete(const DecoderLayer& layer, const std::string& attn,
                AttentionLayerConfig& config,
                AttentionWeights& weights) const final {
    const int64_t dim = config.head_dim;
    weights.query_norm = RmsNorm(attn + "q_norm", dim);
    if (layer.shape.keys_of >= 0) return;
    weights.key_norm = RmsNorm(attn + "k_norm", dim);
    weights.value_norm = Norm(NormKind::kRms, config_.norm_epsilon, dim);
  }

  void PlaceNorms(const DecoderLayer& layer, BlockStep& attend,
                  BlockStep& feed) const final {
    PlaceNormsAround(layer, attend, feed);
    feed.stream_scale = NumberOr(layer.name + "layer_scalar", 1);
  }
};

}  // namespace

const Family kGemma4Family = {.name = "gemma4",
                              .model_types = {"gemma4_text"},
                              .read_config = ReadGemma4,
                              .build = BuildDecoder<Gemma4Builder>};

}  // namespace headwise
