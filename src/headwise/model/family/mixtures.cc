// Mixtral (Jiang et al. 2024), Qwen2-MoE and Qwen3-MoE (Qwen team 2024, 2025):
// decoders of Llama's shape of which some or all layers have a mixture of
// experts. Qwen2-MoE adds an expert of every token behind a gate. Door:
// ../family.h.
#include <algorithm>

#include "headwise/model/family.h"
#include "headwise/model/family/decoder.h"
#include "headwise/model/rope_settings.h"

namespace headwise {
namespace {

constexpr int64_t kMixtureWindow = 4096;

bool IsMixtral(const std::string& type) { return type == "mixtral"; }

// Layers that are mixtures: all of Mixtral's; of Qwen's every
// decoder_sparse_step-th, but for mlp_only_layers.
void ReadMixtureLayers(const ConfigReader& reader, ModelConfig& config) {
  const bool mixtral = IsMixtral(reader.Text("model_type", ""));
  const int64_t step = mixtral ? 1 : reader.Size({"decoder_sparse_step"}, 1);
  const std::vector<int64_t> dense =
      mixtral ? std::vector<int64_t>() : reader.Ids("mlp_only_layers");
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const auto layer = static_cast<int64_t>(i);
    if (config.mixture.experts == 0 || (layer + 1) % step != 0 ||
        std::ranges::find(dense, layer) != dense.end()) {
      continue;
    }
    SetMixture(config, config.layers[i]);
  }
}

// Mixtral and Qwen3-MoE: every layer; Qwen2-MoE: by layer_types, or every
// second layer up to max_window_layers.
void ReadMixtureWindows(const ConfigReader& reader, ModelConfig& config) {
  const std::string type = reader.Text("model_type", "");
  const bool mixtral = IsMixtral(type);
  const bool uses = mixtral || reader.Flag("use_sliding_window", false);
  const bool none =
      reader.json().contains("sliding_window") && !reader.Has("sliding_window");
  const int64_t window =
      !uses || none
          ? 0
          : reader.Size({"sliding_window"}, mixtral ? 0 : kMixtureWindow);
  if (type != "qwen2_moe") {
    for (LayerShape& layer : config.layers) layer.window = window;
    return;
  }
  const int64_t first_full = reader.Count("max_window_layers", 28);
  ReadWindows(
      reader, window,
      "sliding_attention needs use_sliding_window and sliding_window",
      [&](int64_t layer) {
        return uses && layer % 2 == 0 && layer < first_full;
      },
      config);
}

ModelConfig ReadMixtures(const ConfigReader& reader) {
  const std::string type = reader.Text("model_type", "");
  const bool mixtral = IsMixtral(type);
  ModelConfig config =
      ReadDecoder(reader, {.other_epsilon = mixtral ? 1e-5 : 1e-6,
                           .other_kv_heads = mixtral               ? 8
                                             : type == "qwen2_moe" ? 16
                                                                   : 4});
  config.ropes = {ReadRope(reader, config.head_dim, {.shares = false})};
  if (type == "qwen2_moe") {
    config.attention_bias = reader.Flag("qkv_bias", true);
  } else if (type == "qwen3_moe") {
    config.attention_bias = reader.Flag("attention_bias", false);
    config.output_bias = config.attention_bias;
  }
  MixtureConfig& mixture = config.mixture;
  if (mixtral) {
    mixture = ReadMixture(reader, {.experts = "num_local_experts",
                                   .other_experts = 8,
                                   .other_active = 2});
    mixture.hidden = config.hidden;
    mixture.router.normalized = true;
  } else {
    const bool second = type == "qwen2_moe";
    mixture = ReadMixture(reader, {.other_experts = second ? 60 : 128,
                                   .other_active = second ? 4 : 8});
    mixture.hidden =
        reader.Size({"moe_intermediate_size"}, second ? 1408 : 768);
    mixture.router.normalized = reader.Flag("norm_topk_prob", false);
    if (second) {
      mixture.shared_hidden =
          reader.Size({"shared_expert_intermediate_size"}, 5632);
    }
  }
  ReadMixtureLayers(reader, config);
  ReadMixtureWindows(reader, config);
  return config;
}

class MixturesBuilder : public DecoderBuilder {
 public:
  using DecoderBuilder::DecoderBuilder;

 private:
  void Complete(const DecoderLayer&, const std::string& attn,
                AttentionLayerConfig&, AttentionWeights& weights) const final {
    if (config_.model_type != "qwen3_moe") return;
    weights.query_norm = RmsNorm(attn + "q_norm", config_.head_dim);
    weights.key_norm = RmsNorm(attn + "k_norm", config_.head_dim);
  }

  void Feed(const DecoderLayer& layer, BlockStep& step) const final {
    const bool mixtral = IsMixtral(config_.model_type);
    const std::string name =
        layer.name + (mixtral ? "block_sparse_moe." : "mlp.");
    const MlpNames names = mixtral ? MlpNames{"w1", "w3", "w2"} : MlpNames();
    const MixtureConfig& mixture = config_.mixture;
    if (!layer.shape.mixture) {
      step.mlp = DenseMlp(name, config_.hidden);
      return;
    }
    ExpertsParts parts;
    parts.name = layer.site + ".mlp";
    parts.config = mixture.router;
    parts.router = Router(name + "gate", mixture.experts);
    for (int64_t i = 0; i < mixture.experts; ++i) {
      parts.experts.push_back(DenseMlp(
          name + "experts." + std::to_string(i) + ".", mixture.hidden, names));
    }
    if (mixture.shared_hidden > 0) {
      parts.shared = DenseMlp(name + "shared_expert.", mixture.shared_hidden);
      parts.shared_gate = Router(name + "shared_expert_gate", 1);
    }
    step.experts = Experts(std::move(parts));
  }

  Linear Router(const std::string& name, int64_t rows) const {
    return Dense({Biased(false, name, config_.width, rows, Start::Normal())});
  }
};

}  // namespace

const Family kMixturesFamily = {
    .name = "mixtures",
    .model_types = {"mixtral", "qwen2_moe", "qwen3_moe"},
    .read_config = ReadMixtures,
    .build = BuildDecoder<MixturesBuilder>};

}  // namespace headwise
