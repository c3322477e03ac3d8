// Granite 3 (IBM 2024): Llama with factors: of embeddings, of attention's
// scores, of what each half adds and of logits. Door: ../family.h.
#include "headwise/model/family.h"
#include "headwise/model/family/decoder.h"
#include "headwise/model/rope_settings.h"

namespace headwise {
namespace {

float ReadMultiplier(const ConfigReader& reader, const char* key) {
  const double factor = reader.Number(key, 1);
  if (!(factor > 0)) reader.Fail(key, "a positive number");
  return static_cast<float>(factor);
}

ModelConfig ReadGranite(const ConfigReader& reader) {
  ModelConfig config = ReadDecoder(reader);
  config.ropes = {ReadRope(reader, config.head_dim, {.shares = false})};
  config.attention_bias = reader.Flag("attention_bias", false);
  config.output_bias = config.attention_bias;
  config.mlp_bias = reader.Flag("mlp_bias", false);
  config.embedding_scale = ReadMultiplier(reader, "embedding_multiplier");
  config.residual_scale = ReadMultiplier(reader, "residual_multiplier");
  config.logit_scale = 1 / ReadMultiplier(reader, "logits_scaling");
  const float scale = ReadMultiplier(reader, "attention_multiplier");
  for (LayerShape& layer : config.layers) layer.scale = scale;
  return config;
}

}  // namespace

const Family kGraniteFamily = {.name = "granite",
                               .model_types = {"granite"},
                               .read_config = ReadGranite,
                               .build = BuildDecoder<DecoderBuilder>};

}  // namespace headwise
