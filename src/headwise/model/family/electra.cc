// ELECTRA (Clark et al. 2020): BERT's layers behind embeddings of a width of
// their own. The generator guesses masked tokens; the discriminator, which has
// no vocabulary, tells which tokens were replaced. Door: ../family.h.
#include "headwise/error.h"
#include "headwise/model/family.h"
#include "headwise/model/family/post_norm.h"

namespace headwise {
namespace {

constexpr int64_t kElectraEmbeddingWidth = 128;  // where a file says nothing
constexpr MaskedHeadNames kGeneratorHead = {
    "generator_predictions.dense", "generator_predictions.LayerNorm",
    "generator_lm_head.weight", "generator_lm_head.bias", nullptr};

ModelConfig ReadElectra(const ConfigReader& reader) {
  ModelConfig config = ReadPostNorm(reader, 0);
  config.activation = ReadActivation(reader, "hidden_act", "gelu");
  config.head_activation = Activation::kGelu;  // whatever the layers have
  ReadEmbeddingWidth(reader, kElectraEmbeddingWidth, config);
  return config;
}

class ElectraBuilder : private PostNormBuilder {
 public:
  using PostNormBuilder::PostNormBuilder;

  Model::Parts Build() const {
    const std::string root = RootOf("electra.");
    Model::Parts parts;
    parts.config = config_;
    Embeddings& e = parts.stack.embeddings;
    e = TextEmbeddings(root + "embeddings.", true);
    if (config_.EmbeddingWidth() != config_.width) {
      e.projection =
          Dense(root + "embeddings_project", config_.EmbeddingWidth(),
                config_.width, Start::Normal());
    }
    const std::string layers = root + "encoder.layer.";
    for (size_t i = 0; i < config_.layers.size(); ++i) {
      parts.stack.blocks.push_back(Layer(layers + std::to_string(i) + ".",
                                         kBertLayer, static_cast<int64_t>(i)));
    }
    RequireLast(layers, config_.layers);
    if (Has("generator_predictions.dense.weight", true)) {
      parts.head = MaskedHead(kGeneratorHead, e.tokens);
    }
    return parts;
  }
};

Model::Parts BuildElectra(const ModelConfig& config,
                          const WeightSource& weights) {
  return ElectraBuilder(config, weights).Build();
}

}  // namespace

// Passes over the discriminator's head and those of other tasks.
const Family kElectraFamily = {
    .name = "electra",
    .model_types = {"electra"},
    .read_config = ReadElectra,
    .build = BuildElectra,
    .passes_over = {"discriminator_predictions.", "classifier.",
                    "sequence_summary.", "qa_outputs."}};

}  // namespace headwise
