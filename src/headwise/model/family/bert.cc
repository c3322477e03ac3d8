// BERT (Devlin et al. 2019) and its siblings: post-norm encoder with learned
// positions. RoBERTa counts positions from the padding id + 1; DistilBERT has
// no token types and other names. The masked-LM head is read where the
// checkpoint has one. Door: ../family.h.
#include <cmath>

#include "headwise/error.h"
#include "headwise/model/family.h"
#include "headwise/model/family/builder.h"

namespace headwise {
namespace {

// Token types of a new model.
constexpr int64_t kNewTypes = 2;

bool IsDistil(const ModelConfig& config) {
  return config.model_type == "distilbert";
}

ModelConfig ReadBert(const ConfigReader& reader) {
  ModelConfig config;
  const std::string type = reader.Text("model_type", "");
  config.width = reader.Size({"hidden_size", "dim"});
  const int64_t heads = reader.Size({"num_attention_heads", "n_heads"});
  if (config.width % heads != 0 && !reader.Has("head_dim")) {
    reader.Fail("num_attention_heads", "a divisor of hidden_size");
  }
  config.head_dim = reader.Size({"head_dim"}, config.width / heads);
  config.hidden = reader.Size({"intermediate_size", "hidden_dim"});
  config.vocabulary = reader.Size({"vocab_size"});
  config.context = reader.Size({"max_position_embeddings"});
  config.layers = ReadLayers(
      reader, reader.Size({"num_hidden_layers", "n_layers"}), heads, heads);
  config.norm_place = NormPlace::kPost;
  if (type == "distilbert") {
    reader.Require("layer_norm_eps", 1e-12, "DistilBERT's is fixed");
  }
  config.norm_epsilon = reader.Epsilon("layer_norm_eps", 1e-12);
  config.activation = ReadActivation(
      reader, type == "distilbert" ? "activation" : "hidden_act", "gelu");
  config.positions = Positions::kLearned;
  const std::vector<int64_t> pad = reader.Ids("pad_token_id");
  config.pad = !pad.empty() ? pad[0] : type == "roberta" ? 1 : 0;
  if (reader.Text("position_embedding_type", "absolute") != "absolute") {
    reader.Fail("position_embedding_type", "\"absolute\"");
  }
  if (reader.Flag("is_decoder", false)) reader.Fail("is_decoder", "false");
  if (type == "roberta") {
    if (config.pad < 0 || config.pad + 1 >= config.context) {
      reader.Fail("pad_token_id", "an id below max_position_embeddings");
    }
    config.position_offset = config.pad + 1;
    config.context -= config.position_offset;
  }
  config.tied_embeddings = reader.Flag("tie_word_embeddings", true);
  return config;
}

// A sibling's names of the parts of a layer.
struct Names {
  const char* layer;  // before the layer's number
  const char *query, *key, *value, *output, *attention_norm;
  const char *up, *down, *mlp_norm;
};

constexpr Names kBertNames = {
    "encoder.layer.",         "attention.self.query",
    "attention.self.key",     "attention.self.value",
    "attention.output.dense", "attention.output.LayerNorm",
    "intermediate.dense",     "output.dense",
    "output.LayerNorm"};
constexpr Names kDistilNames = {
    "transformer.layer.", "attention.q_lin",   "attention.k_lin",
    "attention.v_lin",    "attention.out_lin", "sa_layer_norm",
    "ffn.lin1",           "ffn.lin2",          "output_layer_norm"};

class BertBuilder : private FamilyBuilder {
 public:
  BertBuilder(const ModelConfig& config, const WeightSource& weights)
      : FamilyBuilder(config, weights),
        names_(IsDistil(config) ? kDistilNames : kBertNames) {
    if (!weights_.Find("embeddings.word_embeddings.weight")) {
      root_ = config_.model_type + ".";
    }
  }

  Model::Parts Build() const {
    Model::Parts parts;
    parts.config = config_;
    Embeddings& e = parts.stack.embeddings;
    const std::string name = root_ + "embeddings.";
    e.tokens =
        weights_.Get(name + "word_embeddings.weight",
                     {config_.vocabulary, config_.width}, Start::Normal());
    e.positions =
        weights_.Get(name + "position_embeddings.weight",
                     {config_.context + config_.position_offset, config_.width},
                     Start::Normal());
    e.position_offset = config_.position_offset;
    const std::string types = name + "token_type_embeddings.weight";
    e.types = weights_.Maybe(
        types,
        {weights_.Makes(types) ? kNewTypes : WeightSource::kAny, config_.width},
        IsDistil(config_) ? Start::Absent() : Start::Normal());
    e.norm = LayerNorm(name + "LayerNorm");
    for (size_t i = 0; i < config_.layers.size(); ++i) {
      parts.stack.blocks.push_back(Layer(static_cast<int64_t>(i)));
    }
    RequireLast(root_ + names_.layer, config_.layers);
    ReadHead(parts);
    return parts;
  }

 private:
  Block Layer(int64_t layer) const {
    const std::string name = root_ + names_.layer + std::to_string(layer) + ".";
    const int64_t d = config_.width;
    const int64_t inner = config_.layers[layer].heads * config_.head_dim;
    AttentionLayerConfig attention;
    attention.heads = attention.kv_heads = config_.layers[layer].heads;
    attention.head_dim = config_.head_dim;
    AttentionWeights weights;
    weights.of_x =
        Linear({Part(name + names_.query, d, inner, Start::Normal()),
                Part(name + names_.key, d, inner, Start::Normal()),
                Part(name + names_.value, d, inner, Start::Normal())},
               WeightLayout::kOutIn);
    weights.output =
        Linear({Part(name + names_.output, inner, d, Start::ToStream())},
               WeightLayout::kOutIn);
    const std::string site = "layer." + std::to_string(layer);
    weights.gates = Gates(site + ".attention", attention.heads);
    weights.spans = Spans(site + ".attention", attention.heads);
    AttentionLayer self(attention, std::move(weights),
                        {AttentionKind::kSelf, layer, site + ".attention"});
    BlockStep attend =
        AttentionStep(NormPlace::kPost, LayerNorm(name + names_.attention_norm),
                      std::move(self));
    Mlp mlp(config_.activation, Linear(),
            Dense(name + names_.up, d, config_.hidden, Start::Normal()),
            Dense(name + names_.down, config_.hidden, d, Start::ToStream()));
    Norm norm = LayerNorm(name + names_.mlp_norm);
    return Block(site,
                 {std::move(attend),
                  MlpStep(NormPlace::kPost, std::move(norm), std::move(mlp))});
  }

  // transform → activation → norm → vocabulary, under three sets of names.
  void ReadHead(Model::Parts& parts) const {
    const std::string& type = config_.model_type;
    const char *transform, *norm, *vocabulary, *bias;
    const char* untied_bias = nullptr;
    if (Has("cls.predictions.transform.dense.weight", type == "bert")) {
      transform = "cls.predictions.transform.dense";
      norm = "cls.predictions.transform.LayerNorm";
      vocabulary = "cls.predictions.decoder.weight";
      bias = "cls.predictions.bias";
      untied_bias = "cls.predictions.decoder.bias";
    } else if (Has("lm_head.dense.weight", type == "roberta")) {
      transform = "lm_head.dense";
      norm = "lm_head.layer_norm";
      vocabulary = "lm_head.decoder.weight";
      bias = "lm_head.bias";
      untied_bias = "lm_head.decoder.bias";
    } else if (Has("vocab_transform.weight", IsDistil(config_))) {
      transform = "vocab_transform";
      norm = "vocab_layer_norm";
      vocabulary = "vocab_projector.weight";
      bias = "vocab_projector.bias";
    } else {
      return;
    }
    const int64_t d = config_.width;
    parts.head.transform = Dense(transform, d, d, Start::Normal());
    // RoBERTa's head has gelu whatever the layers have.
    parts.head.activation = config_.model_type == "roberta"
                                ? Activation::kGelu
                                : config_.activation;
    parts.head.norm = LayerNorm(norm);
    parts.head.vocabulary = Output(vocabulary, parts.stack.embeddings.tokens);
    parts.head.bias = OutputBias(bias, untied_bias);
  }

  // transformers stores one bias twice, adds the second and lets the first be
  // where the output is not tied. Older files have the first alone.
  Parameter OutputBias(const char* name, const char* untied) const {
    if (untied != nullptr) {
      const bool absent = weights_.Find(name) || config_.tied_embeddings;
      Parameter bias = weights_.Maybe(untied, {config_.vocabulary},
                                      absent ? Start::Absent() : Start::Zero());
      if (bias) return bias;
    }
    return weights_.Maybe(name, {config_.vocabulary}, Start::Zero());
  }

  const Names& names_;
  std::string root_;
};

Model::Parts BuildBert(const ModelConfig& config, const WeightSource& weights) {
  return BertBuilder(config, weights).Build();
}

}  // namespace

// Passes over heads of other tasks, which train/classifier.h knows in part.
const Family kBertFamily = {
    "bert",
    {"bert", "roberta", "distilbert"},
    ReadBert,
    BuildBert,
    {"pooler.", "classifier.", "cls.seq_relationship."}};

}  // namespace headwise
