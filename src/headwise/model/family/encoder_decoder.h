// The skeleton of encoder–decoders: two stacks that share a table of tokens,
// self-attention, cross-attention in the decoder, a feed-forward layer. A
// family says how its configuration and its tensors are named, and what it does
// in another way.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "headwise/model/config.h"
#include "headwise/model/family/builder.h"
#include "headwise/model/model.h"

namespace headwise {

// Shapes of both sides. `decoder` layers are like the one given; config.layers
// are there already. Then "decoder_heads_per_layer" and
// "cross_heads_per_layer".
void ReadDecoderLayers(const ConfigReader& reader, const char* key,
                       int64_t layers, const LayerShape& like,
                       ModelConfig& config);

// eos, pad and decoder_start; where the file says nothing the decoder starts
// with the padding.
void ReadSideIds(const ConfigReader& reader, ModelConfig& config);

// What Marian's and BART's siblings take where a file says nothing.
struct SideDefaults {
  const char* activation = "gelu";
  bool scale_embedding = false;
};
// Configurations with encoder_layers, decoder_layers, encoder_ffn_dim, ….
ModelConfig ReadSides(const ConfigReader& reader,
                      const SideDefaults& defaults = {});

// A stack's tensors: ROOT LAYERS N. SELF q_proj.weight. Null: there is none.
struct SideNames {
  std::string root;  // "model.encoder."
  const char* layers = "layers.";
  const char *self = "self_attn.", *self_norm = "self_attn_layer_norm";
  const char *cross = "encoder_attn.", *cross_norm = "encoder_attn_layer_norm";
  const char *feed = "", *feed_norm = "final_layer_norm";
  const char* embedding_norm = nullptr;
  const char* final_norm = nullptr;
  const char *query = "q_proj", *key = "k_proj", *value = "v_proj";
  const char* output = "out_proj";
  const char* relative_table = "";  // behind SELF of the first layer
};

class EncoderDecoderBuilder : protected FamilyBuilder {
 public:
  EncoderDecoderBuilder(const ModelConfig& config, const WeightSource& weights)
      : FamilyBuilder(config, weights) {}
  virtual ~EncoderDecoderBuilder() = default;

  Model::Parts Build() const;

 protected:
  // which: "encoder" or "decoder".
  virtual SideNames NamesOf(const std::string& which) const;
  virtual const char* shared_tokens() const { return "model.shared.weight"; }
  // How the biases of a new model start.
  virtual Start bias() const { return Start::Zero(); }
  virtual Norm NormOf(const std::string& name) const { return LayerNorm(name); }
  // name: of the layer, with `feed`.
  virtual Mlp FeedForward(const std::string& name, int64_t hidden) const;

  Linear::Part Projection(const std::string& name, int64_t in, int64_t out,
                          const Start& start = Start::Normal()) const {
    return Part(name, in, out, start, bias());
  }

 private:
  struct Side;
  struct Place;
  Stack BuildStack(const std::string& which,
                   const std::vector<LayerShape>& layers, int64_t hidden) const;
  void AddPositions(const std::string& root, Embeddings& embeddings) const;
  Parameter Tokens(const std::string& own) const;
  Block Layer(const Side& side, int64_t layer, const LayerShape& shape) const;
  BlockStep SelfStep(const Side& side, const Place& place,
                     const LayerShape& shape) const;
  BlockStep OtherStep(const Side& side, const Place& place,
                      const LayerShape& shape) const;
};

}  // namespace headwise
