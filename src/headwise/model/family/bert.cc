// BERT (Devlin et al. 2019) and its siblings: post-norm encoder with learned
// positions. RoBERTa (Liu et al. 2019), XLM-R (Conneau et al. 2020) and
// CamemBERT (Martin et al. 2020) count positions from the padding id + 1;
// DistilBERT (Sanh et al. 2019) has no token types and other names. The
// masked-LM head is read where the checkpoint has one. Door: ../family.h.
#include "headwise/error.h"
#include "headwise/model/family.h"
#include "headwise/model/family/post_norm.h"

namespace headwise {
namespace {

constexpr LayerNames kDistilLayer = {"attention.q_lin", "attention.k_lin",
                                     "attention.v_lin", "attention.out_lin",
                                     "sa_layer_norm",   "ffn.lin1",
                                     "ffn.lin2",        "output_layer_norm"};

// What tells siblings apart.
struct Sibling {
  const char* root;    // of the encoder's tensors, beside a head
  const char* layers;  // before a layer's number
  const LayerNames& layer;
  MaskedHeadNames head;
};

constexpr Sibling kBert = {
    "bert.",
    "encoder.layer.",
    kBertLayer,
    {"cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm",
     "cls.predictions.decoder.weight", "cls.predictions.bias",
     "cls.predictions.decoder.bias"}};
constexpr Sibling kRoberta = {
    "roberta.",
    "encoder.layer.",
    kBertLayer,
    {"lm_head.dense", "lm_head.layer_norm", "lm_head.decoder.weight",
     "lm_head.bias", "lm_head.decoder.bias"}};
constexpr Sibling kDistilBert = {
    "distilbert.",
    "transformer.layer.",
    kDistilLayer,
    {"vocab_transform", "vocab_layer_norm", "vocab_projector.weight",
     "vocab_projector.bias", nullptr}};

const Sibling& SiblingOf(const std::string& type) {
  return type == "bert" ? kBert : type == "distilbert" ? kDistilBert : kRoberta;
}

ModelConfig ReadBert(const ConfigReader& reader) {
  const Sibling& sibling = SiblingOf(reader.Text("model_type", ""));
  const bool distil = &sibling == &kDistilBert, fairseq = &sibling == &kRoberta;
  if (distil) {
    reader.Require("layer_norm_eps", 1e-12, "DistilBERT's is fixed");
  }
  ModelConfig config = ReadPostNorm(reader, fairseq ? 1 : 0);
  config.activation =
      ReadActivation(reader, distil ? "activation" : "hidden_act", "gelu");
  // RoBERTa's head has gelu whatever the layers have.
  config.head_activation = fairseq ? Activation::kGelu : config.activation;
  if (fairseq) CountFromPadding(reader, config.pad, config);
  return config;
}

class BertBuilder : private PostNormBuilder {
 public:
  BertBuilder(const ModelConfig& config, const WeightSource& weights)
      : PostNormBuilder(config, weights),
        sibling_(SiblingOf(config.model_type)) {}

  Model::Parts Build() const {
    const std::string root = RootOf(sibling_.root);
    Model::Parts parts;
    parts.config = config_;
    parts.stack.embeddings =
        TextEmbeddings(root + "embeddings.", &sibling_ != &kDistilBert);
    const std::string layers = root + sibling_.layers;
    for (size_t i = 0; i < config_.layers.size(); ++i) {
      parts.stack.blocks.push_back(Layer(layers + std::to_string(i) + ".",
                                         sibling_.layer,
                                         static_cast<int64_t>(i)));
    }
    RequireLast(layers, config_.layers);
    if (Has(std::string(sibling_.head.transform) + ".weight", true)) {
      parts.head = MaskedHead(sibling_.head, parts.stack.embeddings.tokens);
    }
    return parts;
  }

 private:
  const Sibling& sibling_;
};

Model::Parts BuildBert(const ModelConfig& config, const WeightSource& weights) {
  return BertBuilder(config, weights).Build();
}

}  // namespace

// Passes over heads of other tasks, which train/classifier.h knows in part.
const Family kBertFamily = {
    "bert",
    {"bert", "roberta", "distilbert", "xlm-roberta", "camembert"},
    ReadBert,
    BuildBert,
    {"pooler.", "classifier.", "cls.seq_relationship."}};

}  // namespace headwise
