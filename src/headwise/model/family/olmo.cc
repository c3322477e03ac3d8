// OLMo 2 (OLMo team 2024) and 3: decoders of Llama's shape whose norms stand
// behind what a half adds, and whose queries and keys are normed, all heads
// together. OLMo 3 has windows by layer. Door: ../family.h.
#include "headwise/model/family.h"
#include "headwise/model/family/decoder.h"
#include "headwise/model/rope_settings.h"

namespace headwise {
namespace {

// The default of transformers where a file says nothing.
constexpr int64_t kOlmoWindow = 4096;

ModelConfig ReadOlmo(const ConfigReader& reader) {
  ModelConfig config = ReadDecoder(reader, {.other_epsilon = 1e-5});
  config.ropes = {ReadRope(reader, config.head_dim, {.shares = false})};
  config.attention_bias = reader.Flag("attention_bias", false);
  config.output_bias = config.attention_bias;
  if (reader.Text("model_type", "") == "olmo2") return config;
  const bool none =
      reader.json().contains("sliding_window") && !reader.Has("sliding_window");
  ReadWindows(
      reader, none ? 0 : reader.Size({"sliding_window"}, kOlmoWindow),
      "sliding_attention needs sliding_window",
      [](int64_t layer) { return (layer + 1) % 4 != 0; }, config);
  return config;
}

class OlmoBuilder : public DecoderBuilder {
 public:
  using DecoderBuilder::DecoderBuilder;

 private:
  void Complete(const DecoderLayer& layer, const std::string& attn,
                AttentionLayerConfig&, AttentionWeights& weights) const final {
    const int64_t dim = config_.head_dim;
    weights.query_norm = RmsNorm(attn + "q_norm", layer.shape.heads * dim);
    weights.key_norm = RmsNorm(attn + "k_norm", layer.shape.kv_heads * dim);
  }

  void PlaceNorms(const DecoderLayer& layer, BlockStep& attend,
                  BlockStep& feed) const final {
    PlaceNormsAfter(layer, attend, feed);
  }
};

}  // namespace

const Family kOlmoFamily = {.name = "olmo",
                            .model_types = {"olmo2", "olmo3"},
                            .read_config = ReadOlmo,
                            .build = BuildDecoder<OlmoBuilder>};

}  // namespace headwise
