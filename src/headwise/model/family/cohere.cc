// Cohere's Command R (2024) and Command R7B (cohere2): decoders whose halves
// read one x by one norm without a bias, with rotary positions of neighbouring
// numbers and a factor of logits. Cohere may norm queries and keys, each head
// by weights of its own; Cohere2 has windows by layer, and positions in those
// layers alone. Door: ../family.h.
#include "headwise/model/family.h"
#include "headwise/model/family/decoder.h"
#include "headwise/model/rope_settings.h"

namespace headwise {
namespace {

constexpr int64_t kCohereWindow = 4096;

void ReadCohere2Layers(const ConfigReader& reader, ModelConfig& config) {
  const int64_t pattern = reader.Size({"sliding_window_pattern"}, 4);
  const bool none =
      reader.json().contains("sliding_window") && !reader.Has("sliding_window");
  if (none) {
    reader.Fail("sliding_window",
                "the keys that a query sees in layers of "
                "sliding_attention");
  }
  ReadWindows(
      reader, reader.Size({"sliding_window"}, kCohereWindow), "",
      [&](int64_t layer) { return (layer + 1) % pattern != 0; }, config);
  for (LayerShape& layer : config.layers) {
    if (layer.window == 0) layer.rope = kNoRope;
  }
}

ModelConfig ReadCohere(const ConfigReader& reader) {
  const bool second = reader.Text("model_type", "") == "cohere2";
  ModelConfig config = ReadDecoder(reader, {.epsilon = "layer_norm_eps",
                                            .other_epsilon = 1e-5,
                                            .tied = true,
                                            .divided_width = second});
  config.norm = NormKind::kLayer;
  config.parallel = true;
  config.ropes = {ReadRope(reader, config.head_dim,
                           {.shares = false, .pairs = RopePairs::kNeighbours})};
  config.attention_bias = reader.Flag("attention_bias", false);
  config.output_bias = config.attention_bias;
  config.logit_scale = static_cast<float>(reader.Number("logit_scale", 0.0625));
  if (second) {
    ReadCohere2Layers(reader, config);
  } else {
    config.query_norms = reader.Flag("use_qk_norm", false);
  }
  return config;
}

class CohereBuilder : public DecoderBuilder {
 public:
  using DecoderBuilder::DecoderBuilder;

 private:
  Norm NormOf(const std::string& name, int64_t width) const final {
    return Norm(NormKind::kLayer, config_.norm_epsilon,
                weights_.Get(name + ".weight", {width}, Start::One()), {});
  }

  void Complete(const DecoderLayer& layer, const std::string& attn,
                AttentionLayerConfig&, AttentionWeights& weights) const final {
    if (!config_.query_norms) return;
    weights.query_norm = Each(attn + "q_norm", layer.shape.heads);
    weights.key_norm = Each(attn + "k_norm", layer.shape.kv_heads);
  }

  HeadNorms Each(const std::string& name, int64_t heads) const {
    const Parameter all =
        weights_.Get(name + ".weight", {heads, config_.head_dim}, Start::One());
    std::vector<Norm> norms;
    for (int64_t head = 0; head < heads; ++head) {
      norms.emplace_back(NormKind::kLayer, config_.norm_epsilon,
                         EntryOf(all, head), Parameter());
    }
    return HeadNorms(std::move(norms));
  }

  void PlaceNorms(const DecoderLayer& layer, BlockStep& attend,
                  BlockStep& feed) const final {
    attend.before = NormOf(layer.name + "input_layernorm", config_.width);
    feed.input = StepInput::kShared;
  }
};

}  // namespace

const Family kCohereFamily = {.name = "cohere",
                              .model_types = {"cohere", "cohere2"},
                              .read_config = ReadCohere,
                              .build = BuildDecoder<CohereBuilder>};

}  // namespace headwise
