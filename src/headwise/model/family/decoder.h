// The skeleton of decoders whose tensors are named as Llama's are:
//
//   model.embed_tokens   model.layers.N.input_layernorm        model.norm
//                        model.layers.N.self_attn.{q,k,v,o}_proj
//                        model.layers.N.post_attention_layernorm
//                        model.layers.N.mlp.{gate,up,down}_proj  lm_head
//
// A family says its defaults to ReadDecoder and overrides in a DecoderBuilder
// what it does in another way.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "headwise/model/config.h"
#include "headwise/model/family/builder.h"
#include "headwise/model/model.h"

namespace headwise {

// A family's keys and what transformers takes where a file says nothing.
struct DecoderKeys {
  const char* epsilon = "rms_norm_eps";
  double other_epsilon = 1e-6;
  const char* activation = "hidden_act";
  const char* other_activation = "silu";
  bool tied = false;
  int64_t other_kv_heads = 0;  // 0: as many as heads
  int64_t head_dim = 0;        // 0: hidden_size / num_attention_heads
  // Whether heads are that wide whatever head_dim says.
  bool divided_width = false;
  // Whether positions turn heads, which then have an even width.
  bool even_heads = true;
};

// Sizes, layers, norm, activation, gated, tied_embeddings and ids, all but
// windows, ropes and biases. Causal, rotary, norms of root mean squares.
ModelConfig ReadDecoder(const ConfigReader& reader,
                        const DecoderKeys& keys = {});

// "layer_types", of which each is one of `known`; without the key other(i) of
// layer i.
std::vector<std::string> ReadLayerTypes(
    const ConfigReader& reader, size_t layers,
    std::initializer_list<const char*> known,
    const std::function<std::string(int64_t layer)>& other);

// full_attention, or sliding_attention: `window` keys, 0 where the
// configuration has none, which such layers then are refused for with `hint`.
void ReadWindows(const ConfigReader& reader, int64_t window, const char* hint,
                 const std::function<bool(int64_t layer)>& other_sliding,
                 ModelConfig& config);

// The keys of a mixture of experts, and what transformers takes where a file
// says nothing.
struct MixtureKeys {
  const char* experts = "num_experts";
  const char* same_experts = "num_local_experts";  // another name of it
  int64_t other_experts = 0;
  const char* active = "num_experts_per_tok";
  int64_t other_active = 0;
};

// Experts and how many serve a token, which has to be possible.
MixtureConfig ReadMixture(const ConfigReader& reader, const MixtureKeys& keys);
// Makes the layer one of the model's mixtures.
void SetMixture(const ModelConfig& config, LayerShape& layer);

// The matrices of a gated feed-forward half.
struct MlpNames {
  const char* gate = "gate_proj";
  const char* up = "up_proj";
  const char* down = "down_proj";
};

// A layer in the making.
struct DecoderLayer {
  int64_t index = 0;
  const LayerShape& shape;
  std::string name;  // "model.layers.3."
  std::string site;  // "layer.3"
};

class DecoderBuilder : protected FamilyBuilder {
 public:
  DecoderBuilder(const ModelConfig& config, const WeightSource& weights)
      : FamilyBuilder(config, weights) {}
  virtual ~DecoderBuilder() = default;

  Model::Parts Build() const;

 protected:
  // NAME.weight, and NAME.bias where norms have one.
  virtual Norm NormOf(const std::string& name, int64_t width) const;
  // The only number of a tensor [1] that is not trained, or `other`.
  float NumberOr(const std::string& name, float other) const;
  // Keeps what was made of weights while the model lives.
  void Keep(std::shared_ptr<const Tensor> made) const {
    made_.push_back(std::move(made));
  }
  Mlp DenseMlp(const std::string& name, int64_t hidden,
               const MlpNames& names = {}) const;

  // Queries, keys and values side by side. attn: "model.layers.3.self_attn.".
  virtual Linear Projections(const DecoderLayer& layer,
                             const std::string& attn) const;
  // What attention has besides: norms of queries and keys, sink logits.
  virtual void Complete(const DecoderLayer& /*layer*/,
                        const std::string& /*attn*/,
                        AttentionLayerConfig& /*config*/,
                        AttentionWeights& /*weights*/) const {}
  // The feed-forward half without its norms: mlp or experts of the step.
  virtual void Feed(const DecoderLayer& layer, BlockStep& step) const;
  // Norms of both halves, and what the second reads.
  virtual void PlaceNorms(const DecoderLayer& layer, BlockStep& attend,
                          BlockStep& feed) const;
  // The same with norms of what both add: input_layernorm,
  // post_attention_layernorm, {pre,post}_feedforward_layernorm.
  void PlaceNormsAround(const DecoderLayer& layer, BlockStep& attend,
                        BlockStep& feed) const;
  // Norms of what both add alone, named as these.
  void PlaceNormsAfter(const DecoderLayer& layer, BlockStep& attend,
                       BlockStep& feed) const;

 private:
  Block Layer(int64_t index) const;
  BlockStep Attend(const DecoderLayer& layer) const;

  mutable std::vector<std::shared_ptr<const Tensor>> made_;
};

template <typename Builder>
Model::Parts BuildDecoder(const ModelConfig& config,
                          const WeightSource& weights) {
  return Builder(config, weights).Build();
}

}  // namespace headwise
