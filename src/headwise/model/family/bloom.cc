// BLOOM (BigScience 2022): pre-norm decoder without positions, whose scores
// fall with the distance by a slope of each head (ALiBi). A norm of the token
// embeddings; queries, keys and values lie head by head in one matrix. Door:
// ../family.h.
#include "headwise/error.h"
#include "headwise/model/family.h"
#include "headwise/model/family/builder.h"
#include "headwise/nn/head_slices.h"

namespace headwise {
namespace {

// BLOOM was trained on texts of so many tokens; it has no table that ends.
constexpr int64_t kBloomContext = 2048;
constexpr int64_t kBloomExpansion = 4;

ModelConfig ReadBloom(const ConfigReader& reader) {
  ModelConfig config;
  reader.Require("is_causal", true);
  reader.Require("apply_residual_connection_post_layernorm", false,
                 "a layer's sum begins with its input here");
  if (reader.Count("pretraining_tp", 1) > 1) {
    reader.Require("slow_but_exact", false,
                   "transformers then leaves out biases of the outputs");
  }
  reader.Require("pruned_heads", Json::object(),
                 "heads_per_layer and bias_columns_per_layer say it here");
  config.width = reader.Size({"n_embed", "hidden_size"});
  const int64_t heads = reader.Size({"n_head", "num_attention_heads"});
  if (config.width % heads != 0) {
    reader.Fail("n_head", "a divisor of hidden_size");
  }
  config.head_dim = config.width / heads;
  config.hidden = kBloomExpansion * config.width;
  config.vocabulary = reader.Size({"vocab_size"});
  config.context = reader.Size({"seq_length"}, kBloomContext);
  config.layers = ReadLayers(
      reader, reader.Size({"n_layer", "num_hidden_layers"}), heads, heads);
  ReadBiasColumns(reader, "bias_columns_per_layer", heads, config.layers);
  config.positions = Positions::kRelative;
  config.alibi_heads = heads;
  config.causal = true;
  config.norm_epsilon = reader.Epsilon("layer_norm_epsilon", 1e-5);
  config.activation = Activation::kGeluTanh;
  config.attention_bias = true;
  config.tied_embeddings = reader.Flag("tie_word_embeddings", true);
  ReadEnds(reader, config);
  return config;
}

class BloomBuilder : private FamilyBuilder {
 public:
  BloomBuilder(const ModelConfig& config, const WeightSource& weights)
      : FamilyBuilder(config, weights) {
    if (weights_.Find("word_embeddings.weight")) root_ = "";
  }

  Model::Parts Build() const {
    Model::Parts parts;
    parts.config = config_;
    Embeddings& e = parts.stack.embeddings;
    e.tokens =
        weights_.Get(root_ + "word_embeddings.weight",
                     {config_.vocabulary, config_.width}, Start::Normal());
    e.norm = LayerNorm(root_ + "word_embeddings_layernorm");
    for (size_t i = 0; i < config_.layers.size(); ++i) {
      parts.stack.blocks.push_back(Layer(static_cast<int64_t>(i)));
    }
    RequireLast(root_ + "h.", config_.layers);
    parts.stack.final_norm = LayerNorm(root_ + "ln_f");
    parts.head.vocabulary = Output("lm_head.weight", e.tokens);
    return parts;
  }

 private:
  Block Layer(int64_t layer) const {
    const std::string name = root_ + "h." + std::to_string(layer) + ".";
    const std::string site = "layer." + std::to_string(layer);
    BlockStep attend = AttentionStep(
        NormPlace::kPre, LayerNorm(name + "input_layernorm"),
        Attention(name + "self_attention.", layer, site + ".attention"));
    Mlp mlp(config_.activation, Linear(),
            Dense(name + "mlp.dense_h_to_4h", config_.width, config_.hidden,
                  Start::Normal()),
            Dense(name + "mlp.dense_4h_to_h", config_.hidden, config_.width,
                  Start::ToStream()));
    return Block(site, {std::move(attend),
                        MlpStep(NormPlace::kPre,
                                LayerNorm(name + "post_attention_layernorm"),
                                std::move(mlp))});
  }

  AttentionLayer Attention(const std::string& name, int64_t layer,
                           const std::string& site) const {
    const LayerShape& shape = config_.layers[layer];
    const int64_t inner = shape.heads * config_.head_dim;
    AttentionLayerConfig attention;
    attention.heads = attention.kv_heads = shape.heads;
    attention.head_dim = config_.head_dim;
    attention.mask = AttentionMask::Causal();
    const std::string fused = name + "query_key_value";
    AttentionWeights weights;
    weights.of_x =
        ByGroups(weights_.Get(fused + ".weight", {3 * inner, config_.width},
                              Start::Normal()),
                 weights_.Get(fused + ".bias", {3 * inner}, Start::Zero()),
                 shape.heads, shape.heads, config_.head_dim);
    weights.output =
        Dense(name + "dense", inner, config_.width, Start::ToStream());
    weights.alibi = Slopes(shape);
    weights.gates = Gates(site, shape.heads);
    weights.spans = Spans(site, shape.heads);
    return {attention, std::move(weights), {AttentionKind::kSelf, layer, site}};
  }

  std::string root_ = "transformer.";
};

Model::Parts BuildBloom(const ModelConfig& config,
                        const WeightSource& weights) {
  return BloomBuilder(config, weights).Build();
}

}  // namespace

const Family kBloomFamily = {.name = "bloom",
                             .model_types = {"bloom"},
                             .read_config = ReadBloom,
                             .build = BuildBloom};

}  // namespace headwise
