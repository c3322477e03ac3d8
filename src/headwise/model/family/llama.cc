// Llama (Touvron et al. 2023) and its siblings: pre-norm decoder with root-
// mean-square norms, rotary positions, grouped queries and a gated
// feed-forward half. Mistral adds a sliding window, Ministral one by layer,
// Qwen2 biases on q, k, v, Qwen3 norms on every query and key head. Door:
// ../family.h.
#include "headwise/model/family.h"
#include "headwise/model/family/decoder.h"
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

// Mistral: every layer; Qwen: by layer_types, or the layers from
// max_window_layers on, where use_sliding_window says so.
void ReadLlamaWindows(const ConfigReader& reader, ModelConfig& config) {
  const int64_t window = WindowOf(reader);
  const int64_t full =
      IsQwen(reader) && !reader.Has("layer_types")
          ? reader.Count("max_window_layers", kDefaultFullLayers)
          : 0;
  ReadWindows(
      reader, window,
      "sliding_attention needs sliding_window and, in Qwen, "
      "use_sliding_window",
      [&](int64_t layer) { return layer >= full; }, config);
  if (reader.Text("model_type", "") != "mistral" || window == 0) return;
  for (const LayerShape& layer : config.layers) {
    if (layer.window == window) continue;
    reader.Fail("layer_types", "sliding_attention for each layer",
                "Mistral has its sliding_window in every layer");
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
  ModelConfig config = ReadDecoder(reader);
  ReadLlamaWindows(reader, config);
  // transformers turns heads of these families whole, whatever their share.
  config.ropes = {ReadRope(reader, config.head_dim, {.shares = false})};
  ReadBiases(reader, config);
  return config;
}

class LlamaBuilder : public DecoderBuilder {
 public:
  using DecoderBuilder::DecoderBuilder;

 private:
  void Complete(const DecoderLayer&, const std::string& attn,
                AttentionLayerConfig&, AttentionWeights& weights) const final {
    if (config_.model_type != "qwen3") return;
    weights.query_norm = RmsNorm(attn + "q_norm", config_.head_dim);
    weights.key_norm = RmsNorm(attn + "k_norm", config_.head_dim);
  }
};

}  // namespace

const Family kLlamaFamily = {
    .name = "llama",
    .model_types = {"llama", "mistral", "ministral", "qwen2", "qwen3"},
    .read_config = ReadLlama,
    .build = BuildDecoder<LlamaBuilder>,
    .gguf = "llama",
    .stock_head_dim = true};

}  // namespace headwise
