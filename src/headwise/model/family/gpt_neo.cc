// GPT-Neo (Black et al. 2021): GPT-2 with queries, keys and values in matrices
// of their own, scores that are not scaled, and layers that look back through a
// window (local) between those that see everything (global). Door: ../family.h.
#include "headwise/error.h"
#include "headwise/model/family.h"
#include "headwise/model/family/builder.h"
#include "headwise/model/rope_settings.h"

namespace headwise {
namespace {

// The defaults of transformers where a file says nothing.
constexpr int64_t kGptNeoWindow = 256;
constexpr int64_t kGptNeoRepeats = 12;

[[noreturn]] void FailGptNeoTypes(const ConfigReader& reader) {
  reader.Fail("attention_types",
              "[[[\"global\", \"local\", …], times], …], one type a layer");
}

// "attention_types" written out, one type for each layer.
std::vector<std::string> ReadGptNeoTypes(const ConfigReader& reader) {
  const Json defaults = Json::array(
      {Json::array({Json::array({"global", "local"}), kGptNeoRepeats})});
  const bool given = reader.Has("attention_types");
  const Json& runs = given ? reader.json()["attention_types"] : defaults;
  std::vector<std::string> types;
  if (!runs.is_array()) FailGptNeoTypes(reader);
  for (const Json& run : runs) {
    if (!run.is_array() || run.size() != 2 || !run[0].is_array() ||
        !run[1].is_number_unsigned()) {
      FailGptNeoTypes(reader);
    }
    const auto times = run[1].get<uint64_t>();
    if (times > kMostLayers || times * run[0].size() > kMostLayers) {
      FailGptNeoTypes(reader);
    }
    for (uint64_t i = 0; i < times; ++i) {
      for (const Json& type : run[0]) {
        if (type != "global" && type != "local") FailGptNeoTypes(reader);
        types.push_back(type.get<std::string>());
      }
    }
  }
  reader.Require("attention_layers", types, "attention_types say it");
  return types;
}

ModelConfig ReadGptNeo(const ConfigReader& reader) {
  ModelConfig config;
  reader.Require("is_causal", true);
  config.width = reader.Size({"hidden_size"});
  const int64_t heads = reader.Size({"num_heads", "num_attention_heads"});
  if (config.width % heads != 0) {
    reader.Fail("num_heads", "a divisor of hidden_size");
  }
  config.head_dim = config.width / heads;
  config.hidden = reader.Size({"intermediate_size"}, 4 * config.width);
  config.vocabulary = reader.Size({"vocab_size"});
  config.context = ReadContext(reader);
  config.layers = ReadLayers(
      reader, reader.Size({"num_layers", "num_hidden_layers"}), heads, heads);
  const std::vector<std::string> types = ReadGptNeoTypes(reader);
  if (types.size() != config.layers.size()) FailGptNeoTypes(reader);
  const int64_t window = reader.Size({"window_size"}, kGptNeoWindow);
  for (size_t i = 0; i < types.size(); ++i) {
    config.layers[i].scale = 1;
    config.layers[i].window = types[i] == "local" ? window : 0;
  }
  config.causal = true;
  config.norm_epsilon = reader.Epsilon("layer_norm_epsilon", 1e-5);
  config.activation = ReadActivation(reader, "activation_function", "gelu_new");
  config.positions = Positions::kLearned;
  config.tied_embeddings = reader.Flag("tie_word_embeddings", true);
  ReadEnds(reader, config);
  return config;
}

class GptNeoBuilder : private FamilyBuilder {
 public:
  GptNeoBuilder(const ModelConfig& config, const WeightSource& weights)
      : FamilyBuilder(config, weights) {}

  Model::Parts Build() const {
    Model::Parts parts;
    parts.config = config_;
    Embeddings& e = parts.stack.embeddings;
    e.tokens =
        weights_.Get("transformer.wte.weight",
                     {config_.vocabulary, config_.width}, Start::Normal());
    e.positions =
        weights_.Get("transformer.wpe.weight", {config_.context, config_.width},
                     Start::Normal());
    for (size_t i = 0; i < config_.layers.size(); ++i) {
      parts.stack.blocks.push_back(Layer(static_cast<int64_t>(i)));
    }
    RequireLast("transformer.h.", config_.layers);
    parts.stack.final_norm = LayerNorm("transformer.ln_f");
    parts.head.vocabulary = Output("lm_head.weight", e.tokens);
    return parts;
  }

 private:
  Block Layer(int64_t layer) const {
    const std::string name = "transformer.h." + std::to_string(layer) + ".";
    const std::string site = "layer." + std::to_string(layer);
    BlockStep attend = AttentionStep(
        NormPlace::kPre, LayerNorm(name + "ln_1"),
        Attention(name + "attn.attention.", layer, site + ".attention"));
    Mlp mlp(config_.activation, Linear(),
            Dense(name + "mlp.c_fc", config_.width, config_.hidden,
                  Start::Normal()),
            Dense(name + "mlp.c_proj", config_.hidden, config_.width,
                  Start::ToStream()));
    return Block(site, {std::move(attend),
                        MlpStep(NormPlace::kPre, LayerNorm(name + "ln_2"),
                                std::move(mlp))});
  }

  AttentionLayer Attention(const std::string& name, int64_t layer,
                           const std::string& site) const {
    const LayerShape& shape = config_.layers[layer];
    const int64_t inner = shape.heads * config_.head_dim;
    AttentionLayerConfig attention;
    attention.heads = attention.kv_heads = shape.heads;
    attention.head_dim = config_.head_dim;
    attention.scale = shape.scale;
    attention.mask = MaskOf(config_, shape);
    AttentionWeights weights;
    const auto from_x = [&](const char* which) -> Linear::Part {
      return {weights_.Get(name + which + ".weight", {inner, config_.width},
                           Start::Normal()),
              {}};
    };
    weights.of_x =
        Dense({from_x("q_proj"), from_x("k_proj"), from_x("v_proj")});
    weights.output =
        Dense(name + "out_proj", inner, config_.width, Start::ToStream());
    weights.gates = Gates(site, shape.heads);
    weights.spans = Spans(site, shape.heads);
    return {attention, std::move(weights), {AttentionKind::kSelf, layer, site}};
  }
};

Model::Parts BuildGptNeo(const ModelConfig& config,
                         const WeightSource& weights) {
  return GptNeoBuilder(config, weights).Build();
}

}  // namespace

// Passes over masks.
const Family kGptNeoFamily = {
    .name = "gpt_neo",
    .model_types = {"gpt_neo"},
    .read_config = ReadGptNeo,
    .build = BuildGptNeo,
    .passes_over = {".attention.bias", ".attention.masked_bias"}};

}  // namespace headwise
