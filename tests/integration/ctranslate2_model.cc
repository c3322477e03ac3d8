// The CTranslate2 reader. Door: ctranslate2_model.h.
#include "ctranslate2_model.h"

#include <cmath>
#include <fstream>
#include <utility>
#include <vector>

#include "headwise/format/safetensors.h"

namespace headwise {
namespace {

class Builder {
 public:
  Builder(const Safetensors& file, int64_t heads) : file_(file), heads_(heads) {
    width_ = file_.At("encoder.embeddings.weight").shape[1];
  }

  Stack BuildStack(const std::string& which, int64_t layers) const {
    Stack stack;
    stack.prefix = which + ".";
    stack.embeddings.tokens = Get(which + ".embeddings.weight");
    stack.embeddings.scale = std::sqrt(static_cast<float>(width_));
    stack.embeddings.first_sinusoid = 1;
    for (int64_t i = 0; i < layers; ++i) {
      stack.blocks.push_back(Layer(which, i));
    }
    stack.final_norm = LayerNorm(which + ".layer_norm");
    return stack;
  }

  Linear Dense(const std::string& name) const {
    return Linear({{Get(name + ".weight"), Get(name + ".bias")}},
                  WeightLayout::kOutIn);
  }

 private:
  Block Layer(const std::string& which, int64_t layer) const {
    const std::string number = std::to_string(layer);
    const std::string name = which + ".layer_" + number + ".";
    const std::string site = which + ".layer." + number;
    const bool decoder = which == "decoder";
    AttentionLayerConfig heads;
    heads.heads = heads.kv_heads = heads_;
    heads.head_dim = width_ / heads_;
    AttentionLayerConfig self = heads;
    if (decoder) self.mask = AttentionMask::Causal();
    AttentionWeights weights;
    weights.of_x = Dense(name + "self_attention.linear_0");
    weights.output = Dense(name + "self_attention.linear_1");
    AttentionLayer own(
        self, std::move(weights),
        {decoder ? AttentionKind::kDecoder : AttentionKind::kSelf, layer,
         site + ".attention"});
    std::vector<BlockStep> steps = {AttentionStep(
        NormPlace::kPre, LayerNorm(name + "self_attention.layer_norm"),
        std::move(own))};
    if (decoder) {
      AttentionWeights cross;
      cross.of_x = Dense(name + "attention.linear_0");
      cross.of_memory = Dense(name + "attention.linear_1");
      cross.output = Dense(name + "attention.linear_2");
      AttentionLayer other(heads, std::move(cross),
                           {AttentionKind::kCross, layer, site + ".cross"});
      steps.push_back(CrossStep(NormPlace::kPre,
                                LayerNorm(name + "attention.layer_norm"),
                                std::move(other)));
    }
    steps.push_back(
        MlpStep(NormPlace::kPre, LayerNorm(name + "ffn.layer_norm"),
                Mlp(Activation::kRelu, Linear(), Dense(name + "ffn.linear_0"),
                    Dense(name + "ffn.linear_1"))));
    return Block(site, std::move(steps));
  }

  Norm LayerNorm(const std::string& name) const {
    return Norm(NormKind::kLayer, 1e-5f, Get(name + ".gamma"),
                Get(name + ".beta"));
  }

  Parameter Get(const std::string& name) const {
    return {name, file_.At(name)};
  }

  const Safetensors& file_;
  int64_t heads_;
  int64_t width_ = 0;
};

}  // namespace

std::unique_ptr<Model> OpenCTranslate2(const std::filesystem::path& folder) {
  auto file = std::make_shared<const Safetensors>(Safetensors::Open(folder));
  constexpr int64_t kHeads = 8, kLayers = 6;
  const Builder builder(*file, kHeads);
  Model::Parts parts;
  parts.config.model_type = "ctranslate2";
  parts.config.width = file->At("encoder.embeddings.weight").shape[1];
  parts.config.head_dim = parts.config.width / kHeads;
  parts.config.vocabulary = file->At("decoder.projection.weight").shape[0];
  parts.config.context = 512;
  parts.config.decoder_start = 1;  // <s>
  parts.config.eos = {2};          // </s>
  parts.config.layers.assign(kLayers, {kHeads, kHeads, 0, 0});
  parts.config.decoder.assign(kLayers, {kHeads, kHeads, kHeads, 0});
  parts.stack = builder.BuildStack("encoder", kLayers);
  parts.decoder = builder.BuildStack("decoder", kLayers);
  parts.head.vocabulary = builder.Dense("decoder.projection");
  parts.weights = file;
  return std::make_unique<Model>(std::move(parts));
}

}  // namespace headwise
