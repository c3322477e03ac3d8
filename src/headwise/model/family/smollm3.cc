// SmolLM3 (Hugging Face 2025): Llama of which every fourth layer knows no
// positions; those layers may have a window. Door: ../family.h.
#include "headwise/model/family.h"
#include "headwise/model/family/decoder.h"
#include "headwise/model/rope_settings.h"

namespace headwise {
namespace {

// Whether each layer turns queries and keys: 1 in "no_rope_layers".
std::vector<bool> ReadTurningLayers(const ConfigReader& reader, size_t layers) {
  std::vector<bool> turning(layers);
  const int64_t interval = reader.Size({"no_rope_layer_interval"}, 4);
  const std::vector<int64_t> said = reader.Ids("no_rope_layers");
  if (reader.Has("no_rope_layers") && said.size() < layers) {
    reader.Fail("no_rope_layers", "0 or 1 for each layer");
  }
  for (size_t i = 0; i < layers; ++i) {
    const auto number = static_cast<int64_t>(i) + 1;
    turning[i] = said.empty() ? number % interval != 0 : said[i] != 0;
  }
  return turning;
}

ModelConfig ReadSmollm3(const ConfigReader& reader) {
  ModelConfig config = ReadDecoder(reader, {.tied = true, .other_kv_heads = 4});
  config.ropes = {
      ReadRope(reader, config.head_dim, {.other_base = 2e6, .shares = false})};
  config.attention_bias = reader.Flag("attention_bias", false);
  config.output_bias = config.attention_bias;
  config.mlp_bias = reader.Flag("mlp_bias", false);
  const std::vector<bool> turning =
      ReadTurningLayers(reader, config.layers.size());
  for (size_t i = 0; i < turning.size(); ++i) {
    if (!turning[i]) config.layers[i].rope = kNoRope;
  }
  const bool windows = reader.Flag("use_sliding_window", false);
  ReadWindows(
      reader, windows ? reader.Size({"sliding_window"}, 0) : 0,
      "sliding_attention needs sliding_window and use_sliding_window",
      [&](int64_t layer) { return !turning[layer]; }, config);
  return config;
}

}  // namespace

const Family kSmollm3Family = {.name = "smollm3",
                               .model_types = {"smollm3"},
                               .read_config = ReadSmollm3,
                               .build = BuildDecoder<DecoderBuilder>};

}  // namespace headwise
