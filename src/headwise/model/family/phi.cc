// Phi 1, 1.5 and 2 (Gunasekar et al. 2023): decoder whose attention and
// feed-forward half read one x through one norm and are added to it together.
// Positions turn a share of each head; norms of query and key heads by a
// switch; the output matrix has a bias. Door: ../family.h.
#include "headwise/error.h"
#include "headwise/model/family.h"
#include "headwise/model/family/builder.h"
#include "headwise/model/rope_settings.h"

namespace headwise {
namespace {

ModelConfig ReadPhi(const ConfigReader& reader) {
  ModelConfig config;
  reader.Require("is_causal", true);
  config.width = reader.Size({"hidden_size"});
  const int64_t heads = reader.Size({"num_attention_heads"});
  const int64_t kv_heads = reader.Size({"num_key_value_heads"}, heads);
  if (heads % kv_heads != 0) {
    reader.Fail("num_key_value_heads", "a divisor of num_attention_heads");
  }
  if (config.width % heads != 0 && !reader.Has("head_dim")) {
    reader.Fail("num_attention_heads", "a divisor of hidden_size",
                "an explicit head_dim lifts this");
  }
  config.head_dim = reader.Size({"head_dim"}, config.width / heads);
  config.query_key_norm = reader.Flag("qk_layernorm", false);
  if (config.query_key_norm) {
    reader.Require("head_dim", config.width / heads,
                   "norms of heads are hidden_size / num_attention_heads wide");
  }
  config.hidden = reader.Size({"intermediate_size"});
  config.vocabulary = reader.Size({"vocab_size"});
  config.context = ReadContext(reader);
  config.layers =
      ReadLayers(reader, reader.Size({"num_hidden_layers"}), heads, kv_heads);
  config.causal = true;
  config.norm_epsilon = reader.Epsilon("layer_norm_eps", 1e-5);
  config.activation = ReadActivation(reader, "hidden_act", "gelu_new");
  config.parallel = true;
  config.positions = Positions::kRotary;
  config.ropes = {ReadRope(reader, config.head_dim, {.other_share = 0.5})};
  config.attention_bias = config.output_bias = config.mlp_bias = true;
  config.tied_embeddings = reader.Flag("tie_word_embeddings", false);
  ReadEnds(reader, config);
  return config;
}

class PhiBuilder : private FamilyBuilder {
 public:
  PhiBuilder(const ModelConfig& config, const WeightSource& weights)
      : FamilyBuilder(config, weights) {}

  Model::Parts Build() const {
    Model::Parts parts;
    parts.config = config_;
    parts.stack.embeddings.tokens =
        weights_.Get("model.embed_tokens.weight",
                     {config_.vocabulary, config_.width}, Start::Normal());
    for (size_t i = 0; i < config_.layers.size(); ++i) {
      parts.stack.blocks.push_back(Layer(static_cast<int64_t>(i)));
    }
    RequireLast("model.layers.", config_.layers);
    parts.stack.final_norm = LayerNorm("model.final_layernorm");
    parts.head.vocabulary =
        Output("lm_head.weight", parts.stack.embeddings.tokens);
    parts.head.bias =
        weights_.Maybe("lm_head.bias", {config_.vocabulary}, Start::Zero());
    return parts;
  }

 private:
  Block Layer(int64_t layer) const {
    const std::string name = "model.layers." + std::to_string(layer) + ".";
    const std::string site = "layer." + std::to_string(layer);
    BlockStep attend = AttentionStep(
        NormPlace::kPre, LayerNorm(name + "input_layernorm"),
        Attention(name + "self_attn.", layer, site + ".attention"));
    Mlp mlp(
        config_.activation, Linear(),
        Dense(name + "mlp.fc1", config_.width, config_.hidden, Start::Normal()),
        Dense(name + "mlp.fc2", config_.hidden, config_.width,
              Start::ToStream()));
    BlockStep feed = MlpStep(NormPlace::kPre, Norm(), std::move(mlp));
    feed.input = StepInput::kShared;
    return Block(site, {std::move(attend), std::move(feed)});
  }

  AttentionLayer Attention(const std::string& name, int64_t layer,
                           const std::string& site) const {
    const LayerShape& shape = config_.layers[layer];
    const int64_t dim = config_.head_dim;
    AttentionLayerConfig attention;
    attention.heads = shape.heads;
    attention.kv_heads = shape.kv_heads;
    attention.head_dim = dim;
    attention.mask = AttentionMask::Causal();
    AttentionWeights weights;
    const auto from_x = [&](const char* which, int64_t heads) {
      return Part(name + which, config_.width, heads * dim, Start::Normal());
    };
    weights.of_x =
        Dense({from_x("q_proj", shape.heads), from_x("k_proj", shape.kv_heads),
               from_x("v_proj", shape.kv_heads)});
    weights.output = Dense(name + "dense", shape.heads * dim, config_.width,
                           Start::ToStream());
    if (config_.query_key_norm) {
      weights.query_norm = LayerNorm(name + "q_layernorm", dim);
      weights.key_norm = LayerNorm(name + "k_layernorm", dim);
    }
    weights.rope = Rope(shape);
    weights.gates = Gates(site, shape.heads);
    weights.spans = Spans(site, shape.heads);
    return {attention, std::move(weights), {AttentionKind::kSelf, layer, site}};
  }
};

Model::Parts BuildPhi(const ModelConfig& config, const WeightSource& weights) {
  return PhiBuilder(config, weights).Build();
}

}  // namespace

const Family kPhiFamily = {.name = "phi",
                           .model_types = {"phi"},
                           .read_config = ReadPhi,
                           .build = BuildPhi};

}  // namespace headwise
