// MPNet (Song et al. 2020): BERT without token types, whose scores have a bias
// by relative positions in buckets, one table for all layers. Door:
// ../family.h.
#include "headwise/error.h"
#include "headwise/model/family.h"
#include "headwise/model/family/post_norm.h"

namespace headwise {
namespace {

// transformers fixes these.
constexpr int64_t kMpnetPad = 1, kMpnetBuckets = 32, kMpnetDistance = 128;
constexpr LayerNames kMpnetLayer = {"attention.attn.q",    "attention.attn.k",
                                    "attention.attn.v",    "attention.attn.o",
                                    "attention.LayerNorm", "intermediate.dense",
                                    "output.dense",        "output.LayerNorm"};
constexpr MaskedHeadNames kMpnetHead = {"lm_head.dense", "lm_head.layer_norm",
                                        "lm_head.decoder.weight",
                                        "lm_head.bias", "lm_head.decoder.bias"};

// Columns of the table, which pruned layers read some of.
int64_t HeadsOfTable(const ModelConfig& config) {
  return config.width / config.head_dim;
}

ModelConfig ReadMpnet(const ConfigReader& reader) {
  ModelConfig config = ReadPostNorm(reader, kMpnetPad);
  if (config.width % config.head_dim != 0) {
    reader.Fail("head_dim", "a divisor of hidden_size");
  }
  config.activation = ReadActivation(reader, "hidden_act", "gelu");
  config.head_activation = Activation::kGelu;  // whatever the layers have
  CountFromPadding(reader, kMpnetPad, config);
  reader.Require("relative_attention_num_buckets", kMpnetBuckets,
                 "transformers has as many whatever the file says");
  config.relative = {.count = kMpnetBuckets, .max_distance = kMpnetDistance};
  ReadBiasColumns(reader, "bias_columns_per_layer", HeadsOfTable(config),
                  config.layers);
  return config;
}

class MpnetBuilder : private PostNormBuilder {
 public:
  using PostNormBuilder::PostNormBuilder;

  Model::Parts Build() const {
    const std::string root = RootOf("mpnet.");
    Model::Parts parts;
    parts.config = config_;
    parts.stack.embeddings = TextEmbeddings(root + "embeddings.", false);
    const auto bias = Bias(root + "encoder.relative_attention_bias.weight",
                           HeadsOfTable(config_), true);
    const std::string layers = root + "encoder.layer.";
    for (size_t i = 0; i < config_.layers.size(); ++i) {
      parts.stack.blocks.push_back(Layer(layers + std::to_string(i) + ".",
                                         kMpnetLayer, static_cast<int64_t>(i),
                                         BiasOf(config_.layers[i], bias)));
    }
    RequireLast(layers, config_.layers);
    if (Has("lm_head.dense.weight", true)) {
      parts.head = MaskedHead(kMpnetHead, parts.stack.embeddings.tokens);
    }
    return parts;
  }
};

Model::Parts BuildMpnet(const ModelConfig& config,
                        const WeightSource& weights) {
  return MpnetBuilder(config, weights).Build();
}

}  // namespace

// Passes over heads of other tasks.
const Family kMpnetFamily = {
    .name = "mpnet",
    .model_types = {"mpnet"},
    .read_config = ReadMpnet,
    .build = BuildMpnet,
    .passes_over = {"pooler.", "classifier.", "qa_outputs."}};

}  // namespace headwise
