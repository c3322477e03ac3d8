// OPT (Zhang et al. 2022): decoder with learned positions from row 2 of their
// table on. The norms stand before the halves of a layer or, in the model of
// 350 million, behind their sums; there the tokens' rows are narrower than the
// model, and projected to and from its width. Door: ../family.h.
#include "headwise/error.h"
#include "headwise/model/family.h"
#include "headwise/model/family/builder.h"
#include "headwise/model/rope_settings.h"

namespace headwise {
namespace {

constexpr int64_t kOptFirstPosition = 2;
// OPT's norms say no other.
constexpr float kOptEpsilon = 1e-5f;

ModelConfig ReadOpt(const ConfigReader& reader) {
  ModelConfig config;
  reader.Require("is_causal", true);
  reader.Require("layer_norm_elementwise_affine", true,
                 "norms have weights and biases here");
  config.width = reader.Size({"hidden_size"});
  const int64_t heads = reader.Size({"num_attention_heads"});
  if (config.width % heads != 0) {
    reader.Fail("num_attention_heads", "a divisor of hidden_size");
  }
  config.head_dim = config.width / heads;
  config.embedding_width = reader.Size({"word_embed_proj_dim"}, config.width);
  config.hidden = reader.Size({"ffn_dim"});
  config.vocabulary = reader.Size({"vocab_size"});
  config.context = ReadContext(reader);
  config.position_offset = kOptFirstPosition;
  config.layers =
      ReadLayers(reader, reader.Size({"num_hidden_layers"}), heads, heads);
  config.causal = true;
  config.norm_epsilon = kOptEpsilon;
  const bool before = reader.Flag("do_layer_norm_before", true);
  config.norm_place = before ? NormPlace::kPre : NormPlace::kPost;
  config.final_norm = before && !reader.Flag("_remove_final_layer_norm", false);
  config.activation = ReadActivation(reader, "activation_function", "relu");
  config.positions = Positions::kLearned;
  config.attention_bias = reader.Flag("enable_bias", true);
  config.mlp_bias = config.attention_bias;
  config.tied_embeddings = reader.Flag("tie_word_embeddings", true);
  ReadEnds(reader, config);
  return config;
}

class OptBuilder : private FamilyBuilder {
 public:
  OptBuilder(const ModelConfig& config, const WeightSource& weights)
      : FamilyBuilder(config, weights) {
    if (weights_.Find("decoder.embed_tokens.weight")) root_ = "decoder.";
  }

  Model::Parts Build() const {
    Model::Parts parts;
    parts.config = config_;
    Embeddings& e = parts.stack.embeddings;
    const int64_t d = config_.width, narrow = config_.EmbeddingWidth();
    e.tokens = weights_.Get(root_ + "embed_tokens.weight",
                            {config_.vocabulary, narrow}, Start::Normal());
    e.position_offset = config_.position_offset;
    e.positions =
        weights_.Get(root_ + "embed_positions.weight",
                     {config_.context + e.position_offset, d}, Start::Normal());
    if (narrow != d) {
      e.token_projection = Matrix(root_ + "project_in", narrow, d);
      parts.head.transform = Matrix(root_ + "project_out", d, narrow);
    }
    for (size_t i = 0; i < config_.layers.size(); ++i) {
      parts.stack.blocks.push_back(Layer(static_cast<int64_t>(i)));
    }
    RequireLast(root_ + "layers.", config_.layers);
    if (config_.final_norm) {
      parts.stack.final_norm = LayerNorm(root_ + "final_layer_norm");
    }
    parts.head.vocabulary = Output("lm_head.weight", e.tokens);
    return parts;
  }

 private:
  Linear Matrix(const std::string& name, int64_t in, int64_t out) const {
    return Dense(
        {{weights_.Get(name + ".weight", {out, in}, Start::Normal()), {}}});
  }

  // A bias is read only where there is to be one.
  Linear::Part Biased(const std::string& name, int64_t in, int64_t out,
                      const Start& start) const {
    if (config_.attention_bias) return Part(name, in, out, start);
    return {weights_.Get(name + ".weight", {out, in}, start), {}};
  }

  Block Layer(int64_t layer) const {
    const std::string name = root_ + "layers." + std::to_string(layer) + ".";
    const std::string site = "layer." + std::to_string(layer);
    BlockStep attend = AttentionStep(
        config_.norm_place, LayerNorm(name + "self_attn_layer_norm"),
        Attention(name + "self_attn.", layer, site + ".attention"));
    Mlp mlp(config_.activation, Linear(),
            Dense({Biased(name + "fc1", config_.width, config_.hidden,
                          Start::Normal())}),
            Dense({Biased(name + "fc2", config_.hidden, config_.width,
                          Start::ToStream())}));
    return Block(
        site, {std::move(attend),
               MlpStep(config_.norm_place, LayerNorm(name + "final_layer_norm"),
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
    AttentionWeights weights;
    const auto from_x = [&](const char* which) {
      return Biased(name + which, config_.width, inner, Start::Normal());
    };
    weights.of_x =
        Dense({from_x("q_proj"), from_x("k_proj"), from_x("v_proj")});
    // Where heads were folded there is a bias whatever the configuration says.
    weights.output =
        Dense({Part(name + "out_proj", inner, config_.width, Start::ToStream(),
                    config_.attention_bias ? Start::Zero() : Start::Absent())});
    weights.gates = Gates(site, shape.heads);
    weights.spans = Spans(site, shape.heads);
    return {attention, std::move(weights), {AttentionKind::kSelf, layer, site}};
  }

  std::string root_ = "model.decoder.";
};

Model::Parts BuildOpt(const ModelConfig& config, const WeightSource& weights) {
  return OptBuilder(config, weights).Build();
}

}  // namespace

const Family kOptFamily = {.name = "opt",
                           .model_types = {"opt"},
                           .read_config = ReadOpt,
                           .build = BuildOpt,
                           .stock_output_bias = [](const ModelConfig& config) {
                             return config.attention_bias;
                           }};

}  // namespace headwise
