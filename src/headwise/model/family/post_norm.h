// Encoders of post-norm layers with learned positions: what the files of BERT,
// ELECTRA and ALBERT share. Theirs are the names.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "headwise/model/config.h"
#include "headwise/model/family/builder.h"
#include "headwise/model/model.h"
#include "headwise/nn/block.h"
#include "headwise/nn/relative_bias.h"

namespace headwise {

// The settings that BERT's siblings call alike; pad: the padding id where a
// file says none; repeats: layers for each of num_hidden_layers. Positions
// count from 0.
ModelConfig ReadPostNorm(const ConfigReader& reader, int64_t pad,
                         int64_t repeats = 1);

// Positions count from the padding id + 1 on, as fairseq has them: so many rows
// of the table are no positions.
void CountFromPadding(const ConfigReader& reader, int64_t pad,
                      ModelConfig& config);

// "embedding_size": tables whose rows are projected to the stream.
void ReadEmbeddingWidth(const ConfigReader& reader, int64_t other,
                        ModelConfig& config);

// A family's names of the parts of a layer.
struct LayerNames {
  const char *query, *key, *value, *output, *attention_norm;
  const char *up, *down, *mlp_norm;
};
inline constexpr LayerNames kBertLayer = {"attention.self.query",
                                          "attention.self.key",
                                          "attention.self.value",
                                          "attention.output.dense",
                                          "attention.output.LayerNorm",
                                          "intermediate.dense",
                                          "output.dense",
                                          "output.LayerNorm"};

// Of a masked-LM head: transform → activation → norm → vocabulary. untied_bias,
// which may be null: transformers stores one bias twice, adds the second and
// lets the first be where the output is not tied. Older files have the first
// alone.
struct MaskedHeadNames {
  const char *transform, *norm, *vocabulary, *bias, *untied_bias;
};

class PostNormBuilder : protected FamilyBuilder {
 public:
  using PositionBias = std::shared_ptr<const RelativeBias>;

  PostNormBuilder(const ModelConfig& config, const WeightSource& weights)
      : FamilyBuilder(config, weights) {}

 protected:
  // `root`, or nothing for a file of the encoder alone.
  std::string RootOf(const char* root) const {
    return Has("embeddings.word_embeddings.weight", false) ? "" : root;
  }
  // Tables and norm; typed: a new model has token types.
  Embeddings TextEmbeddings(const std::string& name, bool typed) const;
  // name: before the layer's parts, "bert.encoder.layer.3.".
  Block Layer(const std::string& name, const LayerNames& names, int64_t layer,
              const PositionBias& bias = nullptr) const;
  VocabularyHead MaskedHead(const MaskedHeadNames& names,
                            const Parameter& tokens) const;

 private:
  AttentionWeights Heads(const std::string& name, const LayerNames& names,
                         int64_t heads, const std::string& site) const;
  Parameter OutputBias(const MaskedHeadNames& names) const;
};

}  // namespace headwise
