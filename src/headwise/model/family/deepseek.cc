// DeepSeek V2 and V3 (2024): Llama's skeleton with queries, keys and values
// through latents, of which positions turn a part that all heads share, and
// behind the first layers a mixture of experts, one of them for every token.
// Door: ../family.h.
#include <cmath>

#include "headwise/error.h"
#include "headwise/model/family.h"
#include "headwise/model/family/decoder.h"
#include "headwise/model/rope_settings.h"
#include "headwise/nn/head_slices.h"

namespace headwise {
namespace {

// Of the latents' norms, whatever rms_norm_eps says.
constexpr float kLatentEpsilon = 1e-6f;

bool IsDeepseekV3(const ConfigReader& reader) {
  return reader.Text("model_type", "") == "deepseek_v3";
}

// What V3 multiplies scores by, where positions are stretched.
float ReadDeepseekScale(const ConfigReader& reader, const RopeConfig& rope,
                        int64_t head_dim) {
  double scale = 1 / std::sqrt(static_cast<double>(head_dim));
  const char* key =
      reader.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!IsDeepseekV3(reader) || !reader.Has(key) ||
      rope.scaling == RopeScaling::kNone) {
    return static_cast<float>(scale);
  }
  const ConfigReader said(reader.json()[key], reader.file() + ": " + key);
  const double weight = said.Number("mscale_all_dim", 0);
  if (weight != 0) scale *= std::pow(YarnScale(rope.factor, weight), 2);
  return static_cast<float>(scale);
}

void ReadDeepseekRouter(const ConfigReader& reader, MixtureConfig& mixture) {
  ExpertRouterConfig& router = mixture.router;
  router.active = reader.Size({"num_experts_per_tok"}, 8);
  router.scale = static_cast<float>(
      reader.Number("routed_scaling_factor", IsDeepseekV3(reader) ? 2.5 : 1));
  bool grouped = true;
  if (IsDeepseekV3(reader)) {
    router.score = RouterScore::kSigmoid;
    router.group_score = GroupScore::kBestTwo;
    router.normalized = reader.Flag("norm_topk_prob", true);
  } else {
    const std::string method = reader.Text("topk_method", "greedy");
    grouped = method == "group_limited_greedy";
    if (!grouped && method != "greedy") {
      reader.Fail("topk_method", "greedy or group_limited_greedy");
    }
  }
  if (grouped) {
    router.groups = reader.Size({"n_group"}, 8);
    router.active_groups = reader.Size({"topk_group"}, 4);
  }
  try {
    CheckExpertRouter(router, mixture.experts);
  } catch (const Error& error) {
    reader.Fail("n_routed_experts", "such that tokens can choose among them",
                error.what());
  }
}

ModelConfig ReadDeepseek(const ConfigReader& reader) {
  const bool v3 = IsDeepseekV3(reader);
  const int64_t shared = reader.Size({"qk_rope_head_dim"}, 64);
  ModelConfig config = ReadDecoder(reader, {.head_dim = shared});
  reader.Require("head_dim", shared, "it is qk_rope_head_dim here");
  const int64_t heads = reader.Size({"num_attention_heads"});
  reader.Require("num_key_value_heads", heads, "heads have keys of their own");
  reader.Require("mlp_bias", false);
  config.latents = {.queries = reader.Size({"q_lora_rank"}, 0),
                    .keys = reader.Size({"kv_lora_rank"}, 512),
                    .shared = shared};
  if (!reader.json().contains("q_lora_rank")) config.latents.queries = 1536;
  config.head_dim = reader.Size({"qk_nope_head_dim"}, 128) + shared;
  reader.Require("qk_head_dim", config.head_dim,
                 "it is qk_nope_head_dim + qk_rope_head_dim");
  const bool pairs = !v3 || reader.Flag("rope_interleave", true);
  config.ropes = {
      ReadRope(reader, shared,
               {.shares = false,
                .pairs = pairs ? RopePairs::kNeighbours : RopePairs::kHalves})};
  for (LayerShape& layer : config.layers) {
    layer.value_dim = reader.Size({"v_head_dim"}, 128);
    layer.scale = ReadDeepseekScale(reader, config.ropes[0], config.head_dim);
  }
  config.attention_bias = config.output_bias =
      reader.Flag("attention_bias", false);
  const int64_t dense = reader.Count("first_k_dense_replace", v3 ? 3 : 0);
  if (dense >= std::ssize(config.layers)) return config;
  MixtureConfig& mixture = config.mixture;
  mixture.experts = reader.Size({"n_routed_experts", "num_local_experts"});
  mixture.hidden = reader.Size({"moe_intermediate_size"});
  mixture.shared_hidden =
      mixture.hidden * reader.Size({"n_shared_experts"}, v3 ? 1 : 2);
  ReadDeepseekRouter(reader, mixture);
  for (auto i = static_cast<size_t>(dense); i < config.layers.size(); ++i) {
    SetMixture(config, config.layers[i]);
  }
  return config;
}

class DeepseekBuilder : public DecoderBuilder {
 public:
  using DecoderBuilder::DecoderBuilder;

 protected:
  // Complete makes them.
  Linear Projections(const DecoderLayer&, const std::string&) const override {
    return {};
  }

  void Complete(const DecoderLayer& layer, const std::string& attn,
                AttentionLayerConfig& config,
                AttentionWeights& weights) const override {
    const int64_t heads = layer.shape.heads, d = config_.width;
    const LatentConfig& latents = config_.latents;
    const int64_t value = config_.ValueDim(layer.shape);
    const int64_t own = config_.head_dim - latents.shared;
    config.value_dim = value;
    LatentWeights w;
    const bool narrow = latents.queries > 0;
    if (narrow) {
      w.query_down = Dense({Biased(config_.attention_bias, attn + "q_a_proj", d,
                                   latents.queries, Start::Normal())});
      w.query_norm = LatentNorm(attn + "q_a_layernorm", latents.queries);
    }
    w.query = Dense({Biased(false, attn + (narrow ? "q_b_proj" : "q_proj"),
                            narrow ? latents.queries : d,
                            heads * config_.head_dim, Start::Normal())});
    const Linear::Part down =
        Biased(config_.attention_bias, attn + "kv_a_proj_with_mqa", d,
               latents.keys + latents.shared, Start::Normal());
    const auto rows = [&](int64_t begin, int64_t end) {
      return Dense({{SliceOf(down.weight, 0, begin, end),
                     SliceOf(down.bias, 0, begin, end)}});
    };
    w.down = rows(0, latents.keys);
    w.shared_keys = rows(latents.keys, latents.keys + latents.shared);
    w.norm = LatentNorm(attn + "kv_a_layernorm", latents.keys);
    const Parameter up =
        weights_.Get(attn + "kv_b_proj.weight",
                     {heads * (own + value), latents.keys}, Start::Normal());
    if (heads == 0) {  // it has its empty tensors still
      w.keys = Dense({{up, {}}});
    } else {
      w.keys = Dense(EachOf(up, {}, heads, {0, own}));
      w.values = Dense(EachOf(up, {}, heads, {own, own + value}));
    }
    weights.latent = LatentProjections(std::move(w), heads);
  }

  void Feed(const DecoderLayer& layer, BlockStep& step) const override {
    if (!layer.shape.mixture) return DecoderBuilder::Feed(layer, step);
    const MixtureConfig& config = config_.mixture;
    const std::string name = layer.name + "mlp.";
    ExpertsParts parts = {
        .name = layer.site + ".mlp",
        .config = config.router,
        .router = Dense({Biased(false, name + "gate", config_.width,
                                config.experts, Start::Normal())})};
    parts.correction = weights_.Constant(name + "gate.e_score_correction_bias",
                                         {config.experts});
    for (int64_t i = 0; i < config.experts; ++i) {
      parts.experts.push_back(
          DenseMlp(name + "experts." + std::to_string(i) + ".", config.hidden));
    }
    parts.shared = DenseMlp(name + "shared_experts.", config.shared_hidden);
    step.experts = Experts(std::move(parts));
  }

 private:
  Norm LatentNorm(const std::string& name, int64_t width) const {
    return Norm(NormKind::kRms, kLatentEpsilon,
                weights_.Get(name + ".weight", {width}, Start::One()), {});
  }
};

}  // namespace

const Family kDeepseekFamily = {.name = "deepseek",
                                .model_types = {"deepseek_v2", "deepseek_v3"},
                                .read_config = ReadDeepseek,
                                .build = BuildDecoder<DeepseekBuilder>};

}  // namespace headwise
