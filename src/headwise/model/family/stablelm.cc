// StableLM (Stability AI 2024): pre-norm decoder with layer norms, grouped
// queries, a gated feed-forward half and positions that turn a share of each
// head. Both halves may read one normed x, and each head may have a norm of its
// own for its queries, each group one for its keys. Door: ../family.h.
#include "headwise/model/family.h"
#include "headwise/model/family/decoder.h"
#include "headwise/model/rope_settings.h"

namespace headwise {
namespace {

ModelConfig ReadStablelm(const ConfigReader& reader) {
  ModelConfig config = ReadDecoder(reader, {.epsilon = "layer_norm_eps",
                                            .other_epsilon = 1e-5,
                                            .other_kv_heads = 32,
                                            .divided_width = true,
                                            .even_heads = false});
  config.norm = NormKind::kLayer;
  config.ropes = {ReadRope(reader, config.head_dim, {.other_share = 0.25})};
  config.attention_bias = reader.Flag("use_qkv_bias", false);
  config.parallel = reader.Flag("use_parallel_residual", false);
  config.query_norms = reader.Flag("qk_layernorm", false);
  return config;
}

class StablelmBuilder : public DecoderBuilder {
 public:
  using DecoderBuilder::DecoderBuilder;

 private:
  void Complete(const DecoderLayer& layer, const std::string& attn,
                AttentionLayerConfig&, AttentionWeights& weights) const final {
    if (!config_.query_norms) return;
    weights.query_norm = Each(attn + "q_layernorm", layer.shape.heads);
    weights.key_norm = Each(attn + "k_layernorm", layer.shape.kv_heads);
  }

  HeadNorms Each(const std::string& name, int64_t heads) const {
    std::vector<Norm> norms;
    for (int64_t head = 0; head < heads; ++head) {
      norms.emplace_back(
          NormKind::kLayer, config_.norm_epsilon,
          weights_.Get(name + ".norms." + std::to_string(head) + ".weight",
                       {config_.head_dim}, Start::One()),
          Parameter());
    }
    return HeadNorms(std::move(norms));
  }

  void PlaceNorms(const DecoderLayer& layer, BlockStep& attend,
                  BlockStep& feed) const final {
    if (!config_.parallel) {
      return DecoderBuilder::PlaceNorms(layer, attend, feed);
    }
    attend.before = NormOf(layer.name + "input_layernorm", config_.width);
    feed.input = StepInput::kShared;
  }
};

}  // namespace

const Family kStablelmFamily = {.name = "stablelm",
                                .model_types = {"stablelm"},
                                .read_config = ReadStablelm,
                                .build = BuildDecoder<StablelmBuilder>};

}  // namespace headwise
