// Gemma (2024) 1, 2 and 3: decoders of Llama's shape whose norms multiply by
// one more than their weights and whose embeddings are scaled. Gemma 2 and 3
// norm what a half adds too, and have windows by layer; Gemma 2 caps scores and
// logits, Gemma 3 norms queries and keys and turns layers with a window by
// positions of their own. Door: ../family.h.
#include <array>
#include <cmath>

#include "headwise/model/family.h"
#include "headwise/model/family/decoder.h"
#include "headwise/model/rope_settings.h"

namespace headwise {
namespace {

// The defaults of transformers where a file says nothing.
constexpr int64_t kGemmaHeadDim = 256, kGemmaWindow = 4096;
constexpr double kGemmaScalar = 256;

// Positive, or 0 where the key is null; where it is absent `other`.
float ReadCap(const ConfigReader& reader, const char* key, double other) {
  if (reader.json().contains(key) && !reader.Has(key)) return 0;
  const double cap = reader.Number(key, other);
  const bool absent = !reader.Has(key) && cap == 0;
  if (!absent && !(cap > 0)) reader.Fail(key, "a positive number, or null");
  return static_cast<float>(cap);
}

// Gemma 2: every second layer, from the first on; Gemma 3: all but every
// sixth.
void ReadGemmaLayers(const ConfigReader& reader, bool is_third,
                     ModelConfig& config) {
  const int64_t window =
      reader.json().contains("sliding_window") && !reader.Has("sliding_window")
          ? 0
          : reader.Size({"sliding_window"}, kGemmaWindow);
  const int64_t pattern =
      is_third ? reader.Size({"sliding_window_pattern"}, 6) : 2;
  if (window == 0) {
    reader.Fail("sliding_window",
                "the keys that a query sees in layers of "
                "sliding_attention");
  }
  ReadWindows(
      reader, window, "",
      [&](int64_t layer) { return (layer + 1) % pattern != 0; }, config);
  const double scalar = reader.Number("query_pre_attn_scalar", kGemmaScalar);
  if (!(scalar > 0)) reader.Fail("query_pre_attn_scalar", "a positive number");
  for (LayerShape& layer : config.layers) {
    layer.scale = static_cast<float>(1 / std::sqrt(scalar));
    layer.rope = is_third && layer.window > 0 ? 1 : 0;
  }
}

std::vector<RopeConfig> ReadGemma3Ropes(const ConfigReader& reader,
                                        int64_t head_dim) {
  const std::array<RopeKind, 2> kinds = {
      {{.layers = "full_attention",
        .head_dim = head_dim,
        .keys = {.other_base = 1e6, .shares = false}},
       {.layers = "sliding_attention",
        .head_dim = head_dim,
        .keys = {.base = "rope_local_base_freq",
                 .shares = false,
                 .old_scaling = false}}}};
  return ReadRopes(reader, kinds);
}

ModelConfig ReadGemma(const ConfigReader& reader) {
  const std::string type = reader.Text("model_type", "");
  const bool is_first = type == "gemma", is_third = type == "gemma3_text";
  ModelConfig config = ReadDecoder(
      reader, {.activation = is_first ? "hidden_act" : "hidden_activation",
               .other_activation = "gelu_pytorch_tanh",
               .tied = true,
               .other_kv_heads = is_first ? 16 : 4,
               .head_dim = kGemmaHeadDim});
  reader.Require("use_bidirectional_attention", false);
  config.norm_offset = 1;
  config.embedding_scale = std::sqrt(static_cast<float>(config.width));
  config.attention_bias = reader.Flag("attention_bias", false);
  config.output_bias = config.attention_bias;
  if (is_third) {
    config.ropes = ReadGemma3Ropes(reader, config.head_dim);
  } else {
    config.ropes = {ReadRope(reader, config.head_dim, {.shares = false})};
  }
  if (is_first) return config;
  ReadGemmaLayers(reader, is_third, config);
  config.logit_cap =
      ReadCap(reader, "final_logit_softcapping", is_third ? 0 : 30);
  // transformers does not pass it on in Gemma 3.
  if (!is_third) {
    config.score_cap = ReadCap(reader, "attn_logit_softcapping", 50);
  }
  return config;
}

class GemmaBuilder : public DecoderBuilder {
 public:
  using DecoderBuilder::DecoderBuilder;

 private:
  void Complete(const DecoderLayer&, const std::string& attn,
                AttentionLayerConfig&, AttentionWeights& weights) const final {
    if (config_.model_type != "gemma3_text") return;
    weights.query_norm = RmsNorm(attn + "q_norm", config_.head_dim);
    weights.key_norm = RmsNorm(attn + "k_norm", config_.head_dim);
  }

  void PlaceNorms(const DecoderLayer& layer, BlockStep& attend,
                  BlockStep& feed) const final {
    if (config_.model_type == "gemma") {
      return DecoderBuilder::PlaceNorms(layer, attend, feed);
    }
    PlaceNormsAround(layer, attend, feed);
  }
};

}  // namespace

const Family kGemmaFamily = {.name = "gemma",
                             .model_types = {"gemma", "gemma2", "gemma3_text"},
                             .read_config = ReadGemma,
                             .build = BuildDecoder<GemmaBuilder>};

}  // namespace headwise
