// StarCoder2 (Lozhkov et al. 2024): pre-norm decoder with layer norms, grouped
// queries, rotary positions, biases everywhere and a feed-forward half without
// a gate; each layer may have a window. Door: ../family.h.
#include "headwise/model/family.h"
#include "headwise/model/family/decoder.h"
#include "headwise/model/rope_settings.h"

namespace headwise {
namespace {

ModelConfig ReadStarcoder2(const ConfigReader& reader) {
  ModelConfig config =
      ReadDecoder(reader, {.epsilon = "norm_epsilon",
                           .other_epsilon = 1e-5,
                           .other_activation = "gelu_pytorch_tanh",
                           .tied = true,
                           .other_kv_heads = 2});
  config.norm = NormKind::kLayer;
  config.gated = false;
  config.ropes = {ReadRope(reader, config.head_dim, {.shares = false})};
  config.attention_bias = config.output_bias = config.mlp_bias =
      reader.Flag("use_bias", true);
  const int64_t window = reader.Size({"sliding_window"}, 0);
  for (LayerShape& layer : config.layers) layer.window = window;
  return config;
}

class Starcoder2Builder : public DecoderBuilder {
 public:
  using DecoderBuilder::DecoderBuilder;

 private:
  void Feed(const DecoderLayer& layer, BlockStep& step) const final {
    const std::string name = layer.name + "mlp.";
    const int64_t d = config_.width, hidden = config_.hidden;
    step.mlp = Mlp(config_.activation, Linear(),
                   Dense({Biased(config_.mlp_bias, name + "c_fc", d, hidden,
                                 Start::Normal())}),
                   Dense({Biased(config_.mlp_bias, name + "c_proj", hidden, d,
                                 Start::ToStream())}));
  }
};

}  // namespace

const Family kStarcoder2Family = {.name = "starcoder2",
                                  .model_types = {"starcoder2"},
                                  .read_config = ReadStarcoder2,
                                  .build = BuildDecoder<Starcoder2Builder>};

}  // namespace headwise
