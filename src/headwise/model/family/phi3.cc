// Phi-3 and Phi-4 (Microsoft 2024): decoders of Llama's shape whose queries,
// keys and values lie side by side in one matrix, and gate and up in another.
// Positions turn a share of each head, of long contexts by factors of their
// own; each layer may have a window. Door: ../family.h.
#include "headwise/model/family.h"
#include "headwise/model/family/decoder.h"
#include "headwise/model/rope_settings.h"

namespace headwise {
namespace {

ModelConfig ReadPhi3(const ConfigReader& reader) {
  ModelConfig config = ReadDecoder(reader, {.other_epsilon = 1e-5});
  // transformers takes every scaling for longrope.
  config.ropes = {ReadRope(reader, config.head_dim,
                           {.other_original = 4096, .longrope_alone = true})};
  const int64_t window = reader.Size({"sliding_window"}, 0);
  for (LayerShape& layer : config.layers) layer.window = window;
  return config;
}

class Phi3Builder : public DecoderBuilder {
 public:
  using DecoderBuilder::DecoderBuilder;

 private:
  Linear Projections(const DecoderLayer& layer,
                     const std::string& attn) const final {
    const int64_t heads = layer.shape.heads + 2 * layer.shape.kv_heads;
    return Dense({Biased(false, attn + "qkv_proj", config_.width,
                         heads * config_.head_dim, Start::Normal())});
  }

  void Feed(const DecoderLayer& layer, BlockStep& step) const final {
    const std::string name = layer.name + "mlp.";
    const int64_t d = config_.width, hidden = config_.hidden;
    const Linear both = Dense(
        {Biased(false, name + "gate_up_proj", d, 2 * hidden, Start::Normal())});
    step.mlp = Mlp(config_.activation, both.OutputRange(0, hidden),
                   both.OutputRange(hidden, 2 * hidden),
                   Dense({Biased(false, name + "down_proj", hidden, d,
                                 Start::ToStream())}));
  }
};

}  // namespace

const Family kPhi3Family = {.name = "phi3",
                            .model_types = {"phi3"},
                            .read_config = ReadPhi3,
                            .build = BuildDecoder<Phi3Builder>};

}  // namespace headwise
