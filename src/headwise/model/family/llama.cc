// Llama (Touvron et al. 2023) and its siblings: pre-norm decoder with root-
// mean-square norms, rotary positions, grouped queries and a gated
// feed-forward half. Mistral adds a sliding window, Qwen2 biases on q, k, v,
// Qwen3 norms on every query and key head. Door: ../family.h.
#include "headwise/error.h"
#include "headwise/model/family.h"
#include "headwise/model/family/builder.h"
#include "headwise/model/rope_settings.h"

namespace headwise {
namespace {

// The defaults of transformers where a file says nothing.
constexpr int64_t kDefaultWindow = 4096;
constexpr int64_t kDefaultFullLayers = 28;

bool IsQwen(const ConfigReader& reader) {
  return reader.Text("model_type", "").starts_with("qwen");
}

// Keys that a query sees in layers with a window; 0: there are none, as in
// Llama whatever its file says.
int64_t WindowOf(const ConfigReader& reader) {
  if (reader.Text("model_type", "") == "llama") return 0;
  if (IsQwen(reader) && !reader.Flag("use_sliding_window", false)) return 0;
  if (reader.Has("sliding_window")) return reader.Size({"sliding_window"});
  return reader.json().contains("sliding_window") ? 0 : kDefaultWindow;
}

void ReadLayerTypes(const ConfigReader& reader, int64_t window,
                    ModelConfig& config) {
  const bool mistral = reader.Text("model_type", "") == "mistral";
  const Json& types = reader.json()["layer_types"];
  if (!types.is_array() || types.size() != config.layers.size()) {
    reader.Fail("layer_types", "one type a layer");
  }
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] == "full_attention") {
      if (!mistral || window == 0) continue;
      reader.Fail("layer_types", "sliding_attention for each layer",
                  "Mistral has its sliding_window in every layer");
    }
    if (types[i] != "sliding_attention") {
      reader.Fail("layer_types",
                  "full_attention or sliding_attention for each layer");
    }
    if (window == 0) {
      reader.Fail("layer_types", "full_attention for each layer",
                  "sliding_attention needs sliding_window and, in Qwen, "
                  "use_sliding_window");
    }
    config.layers[i].window = window;
  }
}

// Mistral: every layer; Qwen: by layer_types, or the layers from
// max_window_layers on, where use_sliding_window says so.
void ReadWindows(const ConfigReader& reader, ModelConfig& config) {
  const int64_t window = WindowOf(reader);
  if (reader.Has("layer_types")) {
    ReadLayerTypes(reader, window, config);
    return;
  }
  const int64_t full =
      IsQwen(reader) ? reader.Count("max_window_layers", kDefaultFullLayers)
                     : 0;
  for (size_t i = static_cast<size_t>(full); i < config.layers.size(); ++i) {
    config.layers[i].window = window;
  }
}

// Which of the siblings may have biases, and by which switch.
void ReadBiases(const ConfigReader& reader, ModelConfig& config) {
  const std::string type = reader.Text("model_type", "");
  if (type == "llama" || type == "qwen3") {
    config.attention_bias = reader.Flag("attention_bias", false);
    config.output_bias = config.attention_bias;
  }
  if (type == "llama") config.mlp_bias = reader.Flag("mlp_bias", false);
  if (type == "qwen2") config.attention_bias = true;
}

ModelConfig ReadLlama(const ConfigReader& reader) {
  ModelConfig config;
  reader.Require("is_causal", true);
  config.width = reader.Size({"hidden_size"});
  const int64_t heads = reader.Size({"num_attention_heads"});
  const int64_t kv_heads = reader.Size({"num_key_value_heads"}, heads);
  if (heads % kv_heads != 0) {
    reader.Fail("num_key_value_heads", "a divisor of num_attention_heads");
  }
  if (config.width % heads != 0 && !reader.Has("head_dim")) {
    reader.Fail("num_attention_heads", "a divisor of hidden_size",
                "an explicit head_dim lifts this");
  }
  config.head_dim = reader.Size({"head_dim"}, config.width / heads);
  if (config.head_dim % 2 != 0) {
    reader.Fail(reader.Has("head_dim") ? "head_dim" : "num_attention_heads",
                "such that heads have an even width, since rotary positions "
                "turn pairs of numbers",
                "heads of " + std::to_string(config.head_dim) +
                    ": take fewer of them, or set head_dim to an even number");
  }
  config.hidden = reader.Size({"intermediate_size"});
  config.vocabulary = reader.Size({"vocab_size"});
  config.context = ReadContext(reader);
  config.layers =
      ReadLayers(reader, reader.Size({"num_hidden_layers"}), heads, kv_heads);
  ReadWindows(reader, config);
  config.causal = true;
  config.norm = NormKind::kRms;
  config.norm_epsilon = reader.Epsilon("rms_norm_eps", 1e-6);
  config.activation = ReadActivation(reader, "hidden_act", "silu");
  config.gated = true;
  config.positions = Positions::kRotary;
  // transformers turns heads of these families whole, whatever their share.
  config.ropes = {ReadRope(reader, config.head_dim, {.shares = false})};
  config.tied_embeddings = reader.Flag("tie_word_embeddings", false);
  ReadBiases(reader, config);
  const std::vector<int64_t> bos = reader.Ids("bos_token_id");
  config.bos = bos.empty() ? -1 : bos[0];
  config.eos = reader.Ids("eos_token_id");
  return config;
}

class LlamaBuilder : private FamilyBuilder {
 public:
  LlamaBuilder(const ModelConfig& config, const WeightSource& weights)
      : FamilyBuilder(config, weights) {}

  Model::Parts Build() const {
    Model::Parts parts;
    parts.config = config_;
    parts.stack.embeddings.tokens =
        weights_.Get("model.embed_tokens.weight",
                     {config_.vocabulary, config_.width}, Start::Normal());
    for (size_t i = 0; i < config_.layers.size(); ++i) {
      parts.stack.blocks.push_back(Layer(static_cast<int64_t>(i)));
    }
    RequireLast("model.layers.", config_.layers);
    parts.stack.final_norm = RmsNorm("model.norm", config_.width);
    parts.head.vocabulary =
        Output("lm_head.weight", parts.stack.embeddings.tokens);
    return parts;
  }

 private:
  Block Layer(int64_t layer) const {
    const LayerShape& shape = config_.layers[layer];
    const std::string name = "model.layers." + std::to_string(layer) + ".";
    const std::string attn = name + "self_attn.";
    const int64_t queries = shape.heads * config_.head_dim;
    const int64_t keys = shape.kv_heads * config_.head_dim;
    AttentionLayerConfig attention;
    attention.heads = shape.heads;
    attention.kv_heads = shape.kv_heads;
    attention.head_dim = config_.head_dim;
    attention.mask = shape.window > 0
                         ? AttentionMask::SlidingWindow(shape.window)
                         : AttentionMask::Causal();
    AttentionWeights weights;
    weights.of_x = Dense({Biased(config_.attention_bias, attn + "q_proj",
                                 config_.width, queries, Start::Normal()),
                          Biased(config_.attention_bias, attn + "k_proj",
                                 config_.width, keys, Start::Normal()),
                          Biased(config_.attention_bias, attn + "v_proj",
                                 config_.width, keys, Start::Normal())});
    // Where heads were folded there is a bias whatever the configuration says.
    weights.output =
        Dense({Part(attn + "o_proj", queries, config_.width, Start::ToStream(),
                    config_.output_bias ? Start::Zero() : Start::Absent())});
    if (config_.model_type == "qwen3") {
      weights.query_norm = RmsNorm(attn + "q_norm", config_.head_dim);
      weights.key_norm = RmsNorm(attn + "k_norm", config_.head_dim);
    }
    weights.rope = Rope(shape);
    const std::string site = "layer." + std::to_string(layer);
    weights.gates = Gates(site + ".attention", shape.heads);
    weights.spans = Spans(site + ".attention", shape.heads);
    BlockStep attend = AttentionStep(
        NormPlace::kPre, RmsNorm(name + "input_layernorm", config_.width),
        AttentionLayer(attention, std::move(weights),
                       {AttentionKind::kSelf, layer, site + ".attention"}));
    auto dense = [&](const char* which, int64_t in, int64_t out,
                     const Start& start) {
      return Dense(
          {Biased(config_.mlp_bias, name + "mlp." + which, in, out, start)});
    };
    // Braces keep the order, so that an error names the first that is wrong.
    Mlp mlp{
        config_.activation,
        dense("gate_proj", config_.width, config_.hidden, Start::Normal()),
        dense("up_proj", config_.width, config_.hidden, Start::Normal()),
        dense("down_proj", config_.hidden, config_.width, Start::ToStream())};
    Norm norm = RmsNorm(name + "post_attention_layernorm", config_.width);
    return Block(site,
                 {std::move(attend),
                  MlpStep(NormPlace::kPre, std::move(norm), std::move(mlp))});
  }

  // A bias is read only where the configuration says that there is one.
  Linear::Part Biased(bool biased, const std::string& name, int64_t in,
                      int64_t out, const Start& start) const {
    if (biased) return Part(name, in, out, start);
    return {weights_.Get(name + ".weight", {out, in}, start), {}};
  }
};

Model::Parts BuildLlama(const ModelConfig& config,
                        const WeightSource& weights) {
  return LlamaBuilder(config, weights).Build();
}

}  // namespace

const Family kLlamaFamily = {
    .name = "llama",
    .model_types = {"llama", "mistral", "qwen2", "qwen3"},
    .read_config = ReadLlama,
    .build = BuildLlama,
    .gguf = "llama",
    .stock_head_dim = true};

}  // namespace headwise
