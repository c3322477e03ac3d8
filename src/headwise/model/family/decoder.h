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
#include <string>
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
  int64_t head_dim = 0;  // 0: hidden_size / num_attention_heads
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
  Norm NormOf(const std::string& name, int64_t width) const;
  Mlp DenseMlp(const std::string& name, int64_t hidden) const;

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

 private:
  Block Layer(int64_t index) const;
  BlockStep Attend(const DecoderLayer& layer) const;
};

template <typename Builder>
Model::Parts BuildDecoder(const ModelConfig& config,
                          const WeightSource& weights) {
  return Builder(config, weights).Build();
}

}  // namespace headwise
