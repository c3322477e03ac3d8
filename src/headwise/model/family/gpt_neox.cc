// GPT-NeoX (Black et al. 2022) and Pythia (Biderman et al. 2023): pre-norm
// decoder whose attention and feed-forward half read one x, each by a norm of
// its own, and are added to it together, or one behind the other. Positions
// turn a share of each head; queries, keys and values lie head by head in one
// matrix. Door: ../family.h.
#include "headwise/error.h"
#include "headwise/model/family.h"
#include "headwise/model/family/builder.h"
#include "headwise/model/rope_settings.h"
#include "headwise/nn/head_slices.h"

namespace headwise {
namespace {

constexpr const char* kRotaryBase = "rotary_emb_base";
constexpr const char* kRotaryShare = "rotary_pct";

// Files of transformers 4 say some of these under both names.
RopeConfig ReadGptNeoxRope(const ConfigReader& reader, int64_t head_dim) {
  const auto same = [&](const char* other, const char* own) {
    reader.Require(other, reader.Has(own) ? reader.json()[own] : Json(),
                   std::string("GPT-NeoX has it as ") + own);
  };
  same("rope_theta", kRotaryBase);
  same("partial_rotary_factor", kRotaryShare);
  return ReadRope(
      reader, head_dim,
      {.base = kRotaryBase, .share = kRotaryShare, .other_share = 0.25});
}

ModelConfig ReadGptNeox(const ConfigReader& reader) {
  ModelConfig config;
  reader.Require("is_causal", true);
  config.width = reader.Size({"hidden_size"});
  const int64_t heads = reader.Size({"num_attention_heads"});
  if (config.width % heads != 0) {
    reader.Fail("num_attention_heads", "a divisor of hidden_size");
  }
  config.head_dim = config.width / heads;
  reader.Require("head_dim", config.head_dim,
                 "heads are hidden_size / num_attention_heads wide");
  config.hidden = reader.Size({"intermediate_size"});
  config.vocabulary = reader.Size({"vocab_size"});
  config.context = ReadContext(reader);
  config.layers =
      ReadLayers(reader, reader.Size({"num_hidden_layers"}), heads, heads);
  config.causal = true;
  config.norm_epsilon = reader.Epsilon("layer_norm_eps", 1e-5);
  config.activation = ReadActivation(reader, "hidden_act", "gelu");
  config.parallel = reader.Flag("use_parallel_residual", true);
  config.positions = Positions::kRotary;
  config.ropes = {ReadGptNeoxRope(reader, config.head_dim)};
  config.attention_bias = reader.Flag("attention_bias", true);
  config.tied_embeddings = reader.Flag("tie_word_embeddings", false);
  ReadEnds(reader, config);
  return config;
}

class GptNeoxBuilder : private FamilyBuilder {
 public:
  GptNeoxBuilder(const ModelConfig& config, const WeightSource& weights)
      : FamilyBuilder(config, weights) {}

  Model::Parts Build() const {
    Model::Parts parts;
    parts.config = config_;
    parts.stack.embeddings.tokens =
        weights_.Get("gpt_neox.embed_in.weight",
                     {config_.vocabulary, config_.width}, Start::Normal());
    for (size_t i = 0; i < config_.layers.size(); ++i) {
      parts.stack.blocks.push_back(Layer(static_cast<int64_t>(i)));
    }
    RequireLast("gpt_neox.layers.", config_.layers);
    parts.stack.final_norm = LayerNorm("gpt_neox.final_layer_norm");
    parts.head.vocabulary =
        Output("embed_out.weight", parts.stack.embeddings.tokens);
    return parts;
  }

 private:
  Block Layer(int64_t layer) const {
    const std::string name = "gpt_neox.layers." + std::to_string(layer) + ".";
    const std::string site = "layer." + std::to_string(layer);
    BlockStep attend = AttentionStep(
        NormPlace::kPre, LayerNorm(name + "input_layernorm"),
        Attention(name + "attention.", layer, site + ".attention"));
    Mlp mlp(config_.activation, Linear(),
            Dense(name + "mlp.dense_h_to_4h", config_.width, config_.hidden,
                  Start::Normal()),
            Dense(name + "mlp.dense_4h_to_h", config_.hidden, config_.width,
                  Start::ToStream()));
    BlockStep feed =
        MlpStep(NormPlace::kPre, LayerNorm(name + "post_attention_layernorm"),
                std::move(mlp));
    if (config_.parallel) feed.input = StepInput::kBeside;
    return Block(site, {std::move(attend), std::move(feed)});
  }

  AttentionLayer Attention(const std::string& name, int64_t layer,
                           const std::string& site) const {
    const LayerShape& shape = config_.layers[layer];
    const int64_t inner = shape.heads * config_.head_dim;
    AttentionLayerConfig attention;
    attention.heads = attention.kv_heads = shape.heads;
    attention.head_dim = config_.head_dim;
    attention.mask = AttentionMask::Causal();
    const bool biased = config_.attention_bias;
    const std::string fused = name + "query_key_value";
    Parameter bias;
    if (biased) {
      bias = weights_.Get(fused + ".bias", {3 * inner}, Start::Zero());
    }
    AttentionWeights weights;
    weights.of_x =
        ByGroups(weights_.Get(fused + ".weight", {3 * inner, config_.width},
                              Start::Normal()),
                 bias, shape.heads, shape.heads, config_.head_dim);
    // Where heads were folded there is a bias whatever the configuration says.
    weights.output =
        Dense({Part(name + "dense", inner, config_.width, Start::ToStream(),
                    biased ? Start::Zero() : Start::Absent())});
    weights.rope = Rope(shape);
    weights.gates = Gates(site, shape.heads);
    weights.spans = Spans(site, shape.heads);
    return {attention, std::move(weights), {AttentionKind::kSelf, layer, site}};
  }
};

Model::Parts BuildGptNeox(const ModelConfig& config,
                          const WeightSource& weights) {
  return GptNeoxBuilder(config, weights).Build();
}

}  // namespace

// Passes over masks.
const Family kGptNeoxFamily = {
    .name = "gpt_neox",
    .model_types = {"gpt_neox"},
    .read_config = ReadGptNeox,
    .build = BuildGptNeox,
    .passes_over = {".attention.bias", ".attention.masked_bias"}};

}  // namespace headwise
