// T5 (Raffel et al. 2020), its version 1.1, Flan-T5 and mT5: pre-norm layers
// without biases, norms of root mean squares, scores that are not scaled, and
// no positions but a bias of the scores, which the layers of a stack share.
// Door: ../family.h.
#include <cmath>

#include "headwise/error.h"
#include "headwise/model/family.h"
#include "headwise/model/family/encoder_decoder.h"

namespace headwise {
namespace {

// "relu", "gated-silu", …; files of transformers also say what came of it.
void ReadFeedForward(const ConfigReader& reader, const char* other,
                     ModelConfig& config) {
  constexpr const char* kKey = "feed_forward_proj";
  constexpr std::string_view kGated = "gated-";
  std::string name = reader.Text(kKey, other);
  config.gated = name.starts_with(kGated);
  if (name == "gated-gelu") {
    name = "gelu_new";
  } else if (config.gated) {
    name = name.substr(kGated.size());
  }
  config.gated = reader.Flag("is_gated_act", config.gated);
  const bool told = reader.Has("dense_act_fn");
  config.activation = ActivationNamed(reader, told ? "dense_act_fn" : kKey,
                                      reader.Text("dense_act_fn", name));
}

ModelConfig ReadT5(const ConfigReader& reader) {
  ModelConfig config;
  const bool multilingual = reader.Text("model_type", "") == "mt5";
  reader.Require("is_encoder_decoder", true);
  reader.Require("is_decoder", false);
  reader.Require("pruned_heads", nullptr,
                 "heads_per_layer and bias_columns_per_layer say it here");
  config.width = reader.Size({"d_model"});
  config.head_dim = reader.Size({"d_kv"}, 64);
  config.hidden = config.decoder_hidden = reader.Size({"d_ff"});
  config.vocabulary = reader.Size({"vocab_size"});
  config.context = reader.Size({"n_positions"}, 512);
  config.norm = NormKind::kRms;
  config.norm_epsilon = reader.Epsilon("layer_norm_epsilon", 1e-6);
  ReadFeedForward(reader, multilingual ? "gated-gelu" : "relu", config);
  const int64_t heads = config.relative_heads = reader.Size({"num_heads"});
  const int64_t layers = reader.Size({"num_layers"});
  config.layers = ReadLayers(reader, layers, heads, heads);
  for (LayerShape& shape : config.layers) shape.scale = 1;
  ReadDecoderLayers(reader, "num_decoder_layers",
                    reader.Size({"num_decoder_layers"}, layers),
                    {.heads = heads,
                     .cross_heads = heads,
                     .head_dim = config.head_dim,
                     .scale = 1},
                    config);
  config.positions = Positions::kRelative;
  config.relative = ReadBuckets(reader, "relative_attention_num_buckets",
                                "relative_attention_max_distance");
  ReadBiasColumns(reader, "bias_columns_per_layer", heads, config.layers);
  ReadBiasColumns(reader, "decoder_bias_columns_per_layer", heads,
                  config.decoder);
  // Versions differ in whether states are scaled for a tied output; all tie
  // what a file does not have.
  config.tied_embeddings = config.shared_embeddings = true;
  const bool scaled =
      !multilingual && reader.Flag("scale_decoder_outputs",
                                   reader.Flag("tie_word_embeddings", true));
  if (scaled) {
    config.logit_scale = 1 / std::sqrt(static_cast<float>(config.width));
  }
  config.padding_learns = true;
  ReadSideIds(reader, config);
  return config;
}

class T5Builder : public EncoderDecoderBuilder {
 public:
  using EncoderDecoderBuilder::EncoderDecoderBuilder;

 protected:
  SideNames NamesOf(const std::string& which) const override {
    const bool decoder = which == "decoder";
    SideNames names;
    names.root = which + ".";
    names.layers = "block.";
    names.self = "layer.0.SelfAttention.";
    names.self_norm = "layer.0.layer_norm";
    names.cross = "layer.1.EncDecAttention.";
    names.cross_norm = "layer.1.layer_norm";
    names.feed =
        decoder ? "layer.2.DenseReluDense." : "layer.1.DenseReluDense.";
    names.feed_norm = decoder ? "layer.2.layer_norm" : "layer.1.layer_norm";
    names.final_norm = "final_layer_norm";
    names.query = "q";
    names.key = "k";
    names.value = "v";
    names.output = "o";
    names.relative_table = "relative_attention_bias.weight";
    return names;
  }
  const char* shared_tokens() const override { return "shared.weight"; }
  Start bias() const override { return Start::Absent(); }
  Norm NormOf(const std::string& name) const override {
    return RmsNorm(name, config_.width);
  }
  Mlp FeedForward(const std::string& name, int64_t hidden) const override {
    const int64_t d = config_.width;
    Linear gate;
    if (config_.gated) gate = Dense({Projection(name + "wi_0", d, hidden)});
    const char* up = config_.gated ? "wi_1" : "wi";
    return {config_.activation, std::move(gate),
            Dense({Projection(name + up, d, hidden)}),
            Dense({Projection(name + "wo", hidden, d, Start::ToStream())})};
  }
};

Model::Parts BuildT5(const ModelConfig& config, const WeightSource& weights) {
  return T5Builder(config, weights).Build();
}

}  // namespace

// Passes over a table of cross-attention, which early files have and nobody
// reads.
const Family kT5Family = {
    .name = "t5",
    .model_types = {"t5", "mt5"},
    .read_config = ReadT5,
    .build = BuildT5,
    .passes_over = {"EncDecAttention.relative_attention_bias.weight"}};

}  // namespace headwise
