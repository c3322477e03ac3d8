// ModernBERT (Warner et al. 2024): pre-norm encoder with rotary positions and
// gated feed-forward halves. Most layers see a window around each token, turned
// by a base of their own; the first layer reads the normed embeddings as they
// are. Queries, keys and values are one matrix, gate and up another. Door:
// ../family.h.
#include "headwise/error.h"
#include "headwise/model/family.h"
#include "headwise/model/family/builder.h"
#include "headwise/model/family/decoder.h"
#include "headwise/model/rope_settings.h"
#include "headwise/nn/head_slices.h"

namespace headwise {
namespace {

// Of config.ropes.
constexpr int64_t kGlobalRope = 0, kLocalRope = 1;
// The defaults of transformers where a file says nothing.
constexpr int64_t kLocalAttention = 128, kGlobalEvery = 3, kModernPad = 50283;

// "layer_types", or every third layer is global.
void ReadModernLayers(const ConfigReader& reader, ModelConfig& config) {
  const int64_t every =
      reader.Size({"global_attn_every_n_layers"}, kGlobalEvery);
  // Keys to each side; transformers lets sliding_window win.
  const int64_t reach = reader.Count(
      "sliding_window", reader.Count("local_attention", kLocalAttention) / 2);
  ReadWindows(
      reader, 2 * reach + 1, "",
      [&](int64_t layer) { return layer % every != 0; }, config);
  for (LayerShape& layer : config.layers) {
    layer.rope = layer.window == 0 ? kGlobalRope : kLocalRope;
  }
}

ModelConfig ReadModernBert(const ConfigReader& reader) {
  ModelConfig config;
  config.width = reader.Size({"hidden_size"});
  const int64_t heads = reader.Size({"num_attention_heads"});
  config.head_dim = config.width / heads;
  if (config.width % heads != 0 || config.head_dim % 2 != 0) {
    reader.Fail("num_attention_heads",
                "a divisor of hidden_size that leaves heads of an even width",
                "rotary positions turn pairs of numbers");
  }
  reader.Require("head_dim", config.head_dim,
                 "heads are hidden_size / num_attention_heads wide");
  config.hidden = reader.Size({"intermediate_size"});
  config.vocabulary = reader.Size({"vocab_size"});
  config.context = reader.Size({"max_position_embeddings"}, 8192);
  config.layers =
      ReadLayers(reader, reader.Size({"num_hidden_layers"}), heads, heads);
  ReadModernLayers(reader, config);
  config.norm_epsilon = reader.Epsilon("norm_eps", 1e-5);
  config.norm_bias = reader.Flag("norm_bias", false);
  config.activation = ReadActivation(reader, "hidden_activation", "gelu");
  config.gated = true;
  config.positions = Positions::kRotary;
  const RopeKind kinds[] = {
      {"full_attention",
       config.head_dim,
       {.base = "global_rope_theta", .other_base = 160000, .shares = false}},
      {"sliding_attention",
       config.head_dim,
       {.base = "local_rope_theta", .other_base = 10000, .shares = false}}};
  config.ropes = ReadRopes(reader, kinds);
  config.attention_bias = reader.Flag("attention_bias", false);
  config.mlp_bias = reader.Flag("mlp_bias", false);
  config.head_activation =
      ReadActivation(reader, "classifier_activation", "gelu");
  config.transform_bias = reader.Flag("classifier_bias", false);
  config.head_bias = reader.Flag("decoder_bias", true);
  const std::vector<int64_t> pad = reader.Ids("pad_token_id");
  config.pad = pad.empty() ? kModernPad : pad[0];
  config.tied_embeddings = reader.Flag("tie_word_embeddings", true);
  return config;
}

class ModernBertBuilder : private FamilyBuilder {
 public:
  ModernBertBuilder(const ModelConfig& config, const WeightSource& weights)
      : FamilyBuilder(config, weights) {
    if (!weights_.Find("embeddings.tok_embeddings.weight")) root_ = "model.";
  }

  Model::Parts Build() const {
    Model::Parts parts;
    parts.config = config_;
    Embeddings& e = parts.stack.embeddings;
    e.tokens =
        weights_.Get(root_ + "embeddings.tok_embeddings.weight",
                     {config_.vocabulary, config_.width}, Start::Normal());
    e.norm = LayerNorm(root_ + "embeddings.norm");
    for (size_t i = 0; i < config_.layers.size(); ++i) {
      parts.stack.blocks.push_back(Layer(static_cast<int64_t>(i)));
    }
    RequireLast(root_ + "layers.", config_.layers);
    parts.stack.final_norm = LayerNorm(root_ + "final_norm");
    // Classifiers have the same transform, and no vocabulary.
    if (Has("head.dense.weight", true) && !weights_.Find("classifier.weight")) {
      parts.head = Head(e.tokens);
    }
    return parts;
  }

 private:
  Block Layer(int64_t layer) const {
    const std::string name = root_ + "layers." + std::to_string(layer) + ".";
    const std::string site = "layer." + std::to_string(layer);
    Norm first;  // none: the embeddings are normed
    BlockStep attend = AttentionStep(
        NormPlace::kPre,
        layer == 0 ? std::move(first) : LayerNorm(name + "attn_norm"),
        Attention(name + "attn.", layer, site + ".attention"));
    const std::string fused = name + "mlp.Wi";
    const int64_t hidden = config_.hidden;
    const Linear::Part both = Biased(config_.mlp_bias, fused, config_.width,
                                     2 * hidden, Start::Normal());
    const auto half = [&](int64_t begin) {
      return Dense(EachOf(both.weight, both.bias, 1, {begin, begin + hidden}));
    };
    Mlp mlp(config_.activation, half(0), half(hidden),
            Dense({Biased(config_.mlp_bias, name + "mlp.Wo", hidden,
                          config_.width, Start::ToStream())}));
    Norm norm = LayerNorm(name + "mlp_norm");
    return Block(site,
                 {std::move(attend),
                  MlpStep(NormPlace::kPre, std::move(norm), std::move(mlp))});
  }

  AttentionLayer Attention(const std::string& name, int64_t layer,
                           const std::string& site) const {
    const LayerShape& shape = config_.layers[layer];
    const int64_t inner = shape.heads * config_.head_dim;
    AttentionLayerConfig attention;
    attention.heads = attention.kv_heads = shape.heads;
    attention.head_dim = config_.head_dim;
    attention.mask = MaskOf(config_, shape);
    const Linear::Part fused =
        Biased(config_.attention_bias, name + "Wqkv", config_.width, 3 * inner,
               Start::Normal());
    AttentionWeights weights;
    weights.of_x = Dense(EachOf(fused.weight, fused.bias, 3, {0, inner}));
    // Where heads were folded there is a bias whatever the configuration says.
    weights.output =
        Dense({Part(name + "Wo", inner, config_.width, Start::ToStream(),
                    config_.attention_bias ? Start::Zero() : Start::Absent())});
    weights.rope = Rope(shape);
    weights.gates = Gates(site, shape.heads);
    weights.spans = Spans(site, shape.heads);
    return {attention, std::move(weights), {AttentionKind::kSelf, layer, site}};
  }

  VocabularyHead Head(const Parameter& tokens) const {
    const int64_t d = config_.width;
    VocabularyHead head;
    head.transform = Dense(
        {Biased(config_.transform_bias, "head.dense", d, d, Start::Normal())});
    head.activation = config_.head_activation;
    head.norm = LayerNorm("head.norm");
    head.vocabulary = Output("decoder.weight", tokens);
    if (config_.head_bias) {
      head.bias =
          weights_.Maybe("decoder.bias", {config_.vocabulary}, Start::Zero());
    }
    return head;
  }

  std::string root_;
};

Model::Parts BuildModernBert(const ModelConfig& config,
                             const WeightSource& weights) {
  return ModernBertBuilder(config, weights).Build();
}

}  // namespace

// Passes over heads of other tasks.
const Family kModernBertFamily = {
    .name = "modernbert",
    .model_types = {"modernbert"},
    .read_config = ReadModernBert,
    .build = BuildModernBert,
    .passes_over = {"classifier.", "head.dense.", "head.norm."}};

}  // namespace headwise
