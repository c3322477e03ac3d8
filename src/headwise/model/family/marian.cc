// Marian's encoder–decoder (Junczys-Dowmunt et al. 2018; Vaswani et al. 2017):
// post-norm layers, sinusoid positions, shared scaled embeddings, a bias on
// the logits. Door: ../family.h.
#include "headwise/error.h"
#include "headwise/model/family.h"
#include "headwise/model/family/encoder_decoder.h"

namespace headwise {
namespace {

// Settings of Marian's converted files that say another architecture.
void RequirePostNorm(const ConfigReader& reader) {
  for (const char* key :
       {"normalize_before", "normalize_embedding", "add_final_layer_norm"}) {
    reader.Require(key, false, "norms stand behind the halves of a layer");
  }
  reader.Require("static_position_embeddings", true, "positions are sinusoids");
}

ModelConfig ReadMarian(const ConfigReader& reader) {
  RequirePostNorm(reader);
  ModelConfig config = ReadSides(reader);
  config.norm_place = NormPlace::kPost;
  config.positions = Positions::kSinusoid;
  const bool shared = reader.Flag("share_encoder_decoder_embeddings", true);
  config.shared_embeddings = shared && config.tied_embeddings;
  if (!shared) {
    reader.Require("decoder_vocab_size", config.vocabulary,
                   "both sides have one vocabulary here");
  }
  return config;
}

Model::Parts BuildMarian(const ModelConfig& config,
                         const WeightSource& weights) {
  return EncoderDecoderBuilder(config, weights).Build();
}

}  // namespace

// Passes over tables of sinusoids, which are computed.
const Family kMarianFamily = {"encoder_decoder",
                              {"marian"},
                              ReadMarian,
                              BuildMarian,
                              {"embed_positions.weight"}};

}  // namespace headwise
