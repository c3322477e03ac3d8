// GPT-J (Wang and Komatsuzaki 2021): decoder whose attention and feed-forward
// half read one x through one norm and are added to it together. Neighbouring
// numbers of the first dimensions of a head turn by positions; the output
// matrix has a bias. Door: ../family.h.
#include "headwise/error.h"
#include "headwise/model/family.h"
#include "headwise/model/family/builder.h"

namespace headwise {
namespace {

// The default of transformers where a file says nothing. It reads no other
// setting of rotary positions.
constexpr int64_t kGptJRotaryDims = 64;

RopeConfig ReadGptJRope(const ConfigReader& reader, int64_t head_dim) {
  RopeConfig rope;
  rope.head_dim = head_dim;
  rope.turned = reader.Size({"rotary_dim"}, kGptJRotaryDims);
  rope.pairs = RopePairs::kNeighbours;
  if (rope.turned > head_dim || rope.turned % 2 != 0) {
    reader.Fail("rotary_dim", "an even number of the " +
                                  std::to_string(head_dim) +
                                  " dimensions of a head");
  }
  return rope;
}

ModelConfig ReadGptJ(const ConfigReader& reader) {
  ModelConfig config;
  reader.Require("is_causal", true);
  config.width = reader.Size({"n_embd", "hidden_size"});
  const int64_t heads = reader.Size({"n_head", "num_attention_heads"});
  if (config.width % heads != 0) {
    reader.Fail("n_head", "a divisor of n_embd");
  }
  config.head_dim = config.width / heads;
  config.hidden = reader.Size({"n_inner"}, 4 * config.width);
  config.vocabulary = reader.Size({"vocab_size"});
  config.context = reader.Size({"n_positions", "max_position_embeddings"});
  config.layers = ReadLayers(
      reader, reader.Size({"n_layer", "num_hidden_layers"}), heads, heads);
  config.causal = true;
  config.norm_epsilon = reader.Epsilon("layer_norm_epsilon", 1e-5);
  config.activation = ReadActivation(reader, "activation_function", "gelu_new");
  config.parallel = true;
  config.positions = Positions::kRotary;
  config.ropes = {ReadGptJRope(reader, config.head_dim)};
  config.tied_embeddings = reader.Flag("tie_word_embeddings", false);
  ReadEnds(reader, config);
  return config;
}

class GptJBuilder : private FamilyBuilder {
 public:
  GptJBuilder(const ModelConfig& config, const WeightSource& weights)
      : FamilyBuilder(config, weights) {}

  Model::Parts Build() const {
    Model::Parts parts;
    parts.config = config_;
    parts.stack.embeddings.tokens =
        weights_.Get("transformer.wte.weight",
                     {config_.vocabulary, config_.width}, Start::Normal());
    for (size_t i = 0; i < config_.layers.size(); ++i) {
      parts.stack.blocks.push_back(Layer(static_cast<int64_t>(i)));
    }
    RequireLast("transformer.h.", config_.layers);
    parts.stack.final_norm = LayerNorm("transformer.ln_f");
    parts.head.vocabulary =
        Output("lm_head.weight", parts.stack.embeddings.tokens);
    parts.head.bias =
        weights_.Maybe("lm_head.bias", {config_.vocabulary}, Start::Zero());
    return parts;
  }

 private:
  Block Layer(int64_t layer) const {
    const std::string name = "transformer.h." + std::to_string(layer) + ".";
    const std::string site = "layer." + std::to_string(layer);
    BlockStep attend =
        AttentionStep(NormPlace::kPre, LayerNorm(name + "ln_1"),
                      Attention(name + "attn.", layer, site + ".attention"));
    Mlp mlp(config_.activation, Linear(),
            Dense(name + "mlp.fc_in", config_.width, config_.hidden,
                  Start::Normal()),
            Dense(name + "mlp.fc_out", config_.hidden, config_.width,
                  Start::ToStream()));
    BlockStep feed = MlpStep(NormPlace::kPre, Norm(), std::move(mlp));
    feed.input = StepInput::kShared;
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
    AttentionWeights weights;
    const auto from_x = [&](const char* which) -> Linear::Part {
      return {weights_.Get(name + which + ".weight", {inner, config_.width},
                           Start::Normal()),
              {}};
    };
    weights.of_x =
        Dense({from_x("q_proj"), from_x("k_proj"), from_x("v_proj")});
    // Where heads were folded there is a bias.
    weights.output = Dense({Part(name + "out_proj", inner, config_.width,
                                 Start::ToStream(), Start::Absent())});
    weights.rope = Rope(shape);
    weights.gates = Gates(site, shape.heads);
    weights.spans = Spans(site, shape.heads);
    return {attention, std::move(weights), {AttentionKind::kSelf, layer, site}};
  }
};

Model::Parts BuildGptJ(const ModelConfig& config, const WeightSource& weights) {
  return GptJBuilder(config, weights).Build();
}

}  // namespace

// Passes over masks.
const Family kGptJFamily = {
    .name = "gptj",
    .model_types = {"gptj"},
    .read_config = ReadGptJ,
    .build = BuildGptJ,
    .passes_over = {".attn.bias", ".attn.masked_bias"},
    .stock_output_bias = [](const ModelConfig&) { return false; }};

}  // namespace headwise
