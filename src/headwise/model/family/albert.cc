// ALBERT (Lan et al. 2020): BERT behind projected embeddings, of whose layers
// few have weights of their own. A head is one head, used in every layer of its
// group. Door: ../family.h.
#include "headwise/error.h"
#include "headwise/model/family.h"
#include "headwise/model/family/post_norm.h"

namespace headwise {
namespace {

constexpr int64_t kAlbertEmbeddingWidth = 128;  // where a file says nothing
constexpr LayerNames kAlbertLayer = {
    "attention.query", "attention.key",        "attention.value",
    "attention.dense", "attention.LayerNorm",  "ffn",
    "ffn_output",      "full_layer_layer_norm"};
constexpr MaskedHeadNames kAlbertHead = {
    "predictions.dense", "predictions.LayerNorm", "predictions.decoder.weight",
    "predictions.bias", "predictions.decoder.bias"};

// Passes over `group_layers` layers each are dealt out to the groups in order,
// as transformers' quotients of doubles do it.
void ShareLayers(const ConfigReader& reader, ModelConfig& config) {
  const int64_t inner = config.group_layers;
  const int64_t passes = std::ssize(config.layers) / inner;
  const int64_t groups = reader.Size({"num_hidden_groups"}, 1);
  if (groups > passes) {
    reader.Fail("num_hidden_groups", "at most num_hidden_layers");
  }
  const double passes_a_group =
      static_cast<double>(passes) / static_cast<double>(groups);
  std::vector<int64_t> first(groups, -1);  // layer of each group
  for (int64_t layer = 0; layer < std::ssize(config.layers); ++layer) {
    const int64_t pass = layer / inner, place = layer % inner;
    const auto group =
        static_cast<int64_t>(static_cast<double>(pass) / passes_a_group);
    if (first[group] < 0) first[group] = layer;
    LayerShape& shape = config.layers[layer];
    shape.weights_of = first[group] + place;
    if (shape.heads == config.layers[shape.weights_of].heads) continue;
    reader.Fail("heads_per_layer", "the same in layers that share weights");
  }
}

ModelConfig ReadAlbert(const ConfigReader& reader) {
  reader.Require("headwise", nullptr,
                 "layers that share heads have no gates or spans of their own");
  const int64_t inner = reader.Size({"inner_group_num"}, 1);
  ModelConfig config = ReadPostNorm(reader, 0, inner);
  config.group_layers = inner;
  config.activation = ReadActivation(reader, "hidden_act", "gelu_new");
  config.head_activation = config.activation;
  ReadEmbeddingWidth(reader, kAlbertEmbeddingWidth, config);
  ShareLayers(reader, config);
  return config;
}

class AlbertBuilder : private PostNormBuilder {
 public:
  using PostNormBuilder::PostNormBuilder;

  Model::Parts Build() const {
    const std::string root = RootOf("albert.");
    Model::Parts parts;
    parts.config = config_;
    Embeddings& e = parts.stack.embeddings;
    e = TextEmbeddings(root + "embeddings.", true);
    e.projection =
        Dense(root + "encoder.embedding_hidden_mapping_in",
              config_.EmbeddingWidth(), config_.width, Start::Normal());
    AddLayers(root + "encoder.albert_layer_groups.", parts.stack.blocks);
    if (Has("predictions.dense.weight", true)) {
      parts.head = MaskedHead(kAlbertHead, e.tokens);
    }
    return parts;
  }

 private:
  void AddLayers(const std::string& groups, std::vector<Block>& blocks) const {
    int64_t own = 0;  // layers with weights of their own
    for (size_t i = 0; i < config_.layers.size(); ++i) {
      const auto layer = static_cast<int64_t>(i);
      const int64_t from = config_.layers[i].weights_of;
      if (from < layer) {
        blocks.push_back(
            blocks[from].SharedAs("layer." + std::to_string(layer), layer));
        continue;
      }
      const int64_t inner = config_.group_layers;
      blocks.push_back(Layer(groups + std::to_string(own / inner) +
                                 ".albert_layers." +
                                 std::to_string(own % inner) + ".",
                             kAlbertLayer, layer));
      ++own;
    }
    RequireLast(groups, {config_.layers.begin(),
                         config_.layers.begin() + own / config_.group_layers});
  }
};

Model::Parts BuildAlbert(const ModelConfig& config,
                         const WeightSource& weights) {
  return AlbertBuilder(config, weights).Build();
}

}  // namespace

// Passes over heads of other tasks.
const Family kAlbertFamily = {
    .name = "albert",
    .model_types = {"albert"},
    .read_config = ReadAlbert,
    .build = BuildAlbert,
    .passes_over = {"pooler.", "classifier.", "qa_outputs."}};

}  // namespace headwise
