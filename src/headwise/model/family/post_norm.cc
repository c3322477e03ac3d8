// Post-norm encoders. Door: post_norm.h.
#include "headwise/model/family/post_norm.h"

#include <utility>
#include <vector>

namespace headwise {
namespace {

// Token types of a new model.
constexpr int64_t kNewTypes = 2;

}  // namespace

ModelConfig ReadPostNorm(const ConfigReader& reader, int64_t pad,
                         int64_t repeats) {
  ModelConfig config;
  config.width = reader.Size({"hidden_size", "dim"});
  const int64_t heads = reader.Size({"num_attention_heads", "n_heads"});
  if (config.width % heads != 0 && !reader.Has("head_dim")) {
    reader.Fail("num_attention_heads", "a divisor of hidden_size");
  }
  config.head_dim = reader.Size({"head_dim"}, config.width / heads);
  config.hidden = reader.Size({"intermediate_size", "hidden_dim"});
  config.vocabulary = reader.Size({"vocab_size"});
  config.context = reader.Size({"max_position_embeddings"});
  const int64_t layers = reader.Size({"num_hidden_layers", "n_layers"});
  if (repeats > kMostLayers || layers > kMostLayers) {
    reader.Fail("num_hidden_layers", "at most 4096");
  }
  config.layers = ReadLayers(reader, layers * repeats, heads, heads);
  config.norm_place = NormPlace::kPost;
  config.norm_epsilon = reader.Epsilon("layer_norm_eps", 1e-12);
  config.positions = Positions::kLearned;
  const std::vector<int64_t> ids = reader.Ids("pad_token_id");
  config.pad = ids.empty() ? pad : ids[0];
  if (reader.Text("position_embedding_type", "absolute") != "absolute") {
    reader.Fail("position_embedding_type", "\"absolute\"");
  }
  if (reader.Flag("is_decoder", false)) reader.Fail("is_decoder", "false");
  config.tied_embeddings = reader.Flag("tie_word_embeddings", true);
  return config;
}

void CountFromPadding(const ConfigReader& reader, int64_t pad,
                      ModelConfig& config) {
  if (pad < 0 || pad + 1 >= config.context) {
    reader.Fail("pad_token_id", "an id below max_position_embeddings");
  }
  config.position_offset = pad + 1;
  config.context -= config.position_offset;
}

void ReadEmbeddingWidth(const ConfigReader& reader, int64_t other,
                        ModelConfig& config) {
  config.embedding_width = reader.Size({"embedding_size"}, other);
}

Embeddings PostNormBuilder::TextEmbeddings(const std::string& name,
                                           bool typed) const {
  const int64_t width = config_.EmbeddingWidth();
  Embeddings e;
  e.tokens = weights_.Get(name + "word_embeddings.weight",
                          {config_.vocabulary, width}, Start::Normal());
  e.positions = weights_.Get(name + "position_embeddings.weight",
                             {config_.context + config_.position_offset, width},
                             Start::Normal());
  e.position_offset = config_.position_offset;
  const std::string types = name + "token_type_embeddings.weight";
  e.types = weights_.Maybe(
      types, {weights_.Makes(types) ? kNewTypes : WeightSource::kAny, width},
      typed ? Start::Normal() : Start::Absent());
  e.norm = LayerNorm(name + "LayerNorm", width);
  return e;
}

Block PostNormBuilder::Layer(const std::string& name, const LayerNames& names,
                             int64_t layer, const PositionBias& bias) const {
  const int64_t d = config_.width;
  const std::string site = "layer." + std::to_string(layer);
  AttentionLayerConfig attention;
  attention.heads = attention.kv_heads = config_.layers[layer].heads;
  attention.head_dim = config_.head_dim;
  AttentionWeights weights =
      Heads(name, names, attention.heads, site + ".attention");
  weights.bias = bias;
  BlockStep attend = AttentionStep(
      NormPlace::kPost, LayerNorm(name + names.attention_norm),
      AttentionLayer(attention, std::move(weights),
                     {AttentionKind::kSelf, layer, site + ".attention"}));
  Mlp mlp(config_.activation, Linear(),
          Dense(name + names.up, d, config_.hidden, Start::Normal()),
          Dense(name + names.down, config_.hidden, d, Start::ToStream()));
  Norm norm = LayerNorm(name + names.mlp_norm);
  return Block(site,
               {std::move(attend),
                MlpStep(NormPlace::kPost, std::move(norm), std::move(mlp))});
}

AttentionWeights PostNormBuilder::Heads(const std::string& name,
                                        const LayerNames& names, int64_t heads,
                                        const std::string& site) const {
  const int64_t d = config_.width, inner = heads * config_.head_dim;
  AttentionWeights weights;
  weights.of_x = Dense({Part(name + names.query, d, inner, Start::Normal()),
                        Part(name + names.key, d, inner, Start::Normal()),
                        Part(name + names.value, d, inner, Start::Normal())});
  weights.output =
      Dense({Part(name + names.output, inner, d, Start::ToStream())});
  weights.gates = Gates(site, heads);
  weights.spans = Spans(site, heads);
  return weights;
}

VocabularyHead PostNormBuilder::MaskedHead(const MaskedHeadNames& names,
                                           const Parameter& tokens) const {
  const int64_t width = config_.EmbeddingWidth();
  VocabularyHead head;
  head.transform =
      Dense(names.transform, config_.width, width, Start::Normal());
  head.activation = config_.head_activation;
  head.norm = LayerNorm(names.norm, width);
  head.vocabulary = Output(names.vocabulary, tokens);
  head.bias = OutputBias(names);
  return head;
}

Parameter PostNormBuilder::OutputBias(const MaskedHeadNames& names) const {
  if (names.untied_bias != nullptr) {
    const bool absent = weights_.Find(names.bias) || config_.tied_embeddings;
    Parameter bias = weights_.Maybe(names.untied_bias, {config_.vocabulary},
                                    absent ? Start::Absent() : Start::Zero());
    if (bias) return bias;
  }
  return weights_.Maybe(names.bias, {config_.vocabulary}, Start::Zero());
}

}  // namespace headwise
