// The skeleton of encoder–decoders. Door: encoder_decoder.h.
#include "headwise/model/family/encoder_decoder.h"

#include <cmath>
#include <utility>

#include "headwise/error.h"

namespace headwise {
namespace {

AttentionLayerConfig HeadsOfSide(const ModelConfig& config,
                                 const LayerShape& shape, int64_t heads) {
  AttentionLayerConfig attention;
  attention.heads = attention.kv_heads = heads;
  attention.head_dim = config.HeadDim(shape);
  attention.scale = shape.scale;
  return attention;
}

}  // namespace

void ReadDecoderLayers(const ConfigReader& reader, const char* key,
                       int64_t layers, const LayerShape& like,
                       ModelConfig& config) {
  if (layers > kMostLayers) {
    reader.Fail(key, "at most " + std::to_string(kMostLayers));
  }
  config.decoder.assign(static_cast<size_t>(layers), like);
  ReadCounts(reader, "decoder_heads_per_layer", &LayerShape::heads,
             config.decoder);
  ReadCounts(reader, "cross_heads_per_layer", &LayerShape::cross_heads,
             config.decoder);
  for (LayerShape& shape : config.decoder) shape.kv_heads = shape.heads;
}

void ReadSideIds(const ConfigReader& reader, ModelConfig& config) {
  config.eos = reader.Ids("eos_token_id");
  const auto pad = reader.Ids("pad_token_id");
  const auto start = reader.Ids("decoder_start_token_id");
  config.pad = pad.empty() ? -1 : pad[0];
  config.decoder_start = start.empty() ? config.pad : start[0];
}

ModelConfig ReadSides(const ConfigReader& reader,
                      const SideDefaults& defaults) {
  ModelConfig config;
  reader.Require("is_causal", true);
  reader.Require("is_decoder", false);
  config.width = reader.Size({"d_model"});
  const int64_t heads = reader.Size({"encoder_attention_heads"});
  const int64_t decoder_heads = reader.Size({"decoder_attention_heads"});
  if (config.width % heads != 0) {
    reader.Fail("encoder_attention_heads", "a divisor of d_model");
  }
  if (config.width % decoder_heads != 0) {
    reader.Fail("decoder_attention_heads", "a divisor of d_model");
  }
  config.head_dim = config.width / heads;
  config.hidden = reader.Size({"encoder_ffn_dim"});
  config.decoder_hidden = reader.Size({"decoder_ffn_dim"});
  config.vocabulary = reader.Size({"vocab_size"});
  config.context = reader.Size({"max_position_embeddings"});
  config.layers =
      ReadLayers(reader, reader.Size({"encoder_layers"}), heads, heads);
  ReadDecoderLayers(reader, "decoder_layers", reader.Size({"decoder_layers"}),
                    {.heads = decoder_heads,
                     .cross_heads = decoder_heads,
                     .head_dim = config.width / decoder_heads},
                    config);
  config.activation =
      ReadActivation(reader, "activation_function", defaults.activation);
  config.scale_embedding =
      reader.Flag("scale_embedding", defaults.scale_embedding);
  config.tied_embeddings = reader.Flag("tie_word_embeddings", true);
  config.shared_embeddings = config.tied_embeddings;
  ReadSideIds(reader, config);
  return config;
}

// A stack in the making.
struct EncoderDecoderBuilder::Side {
  std::string which;
  bool decoder;
  SideNames names;
  int64_t hidden;
  std::shared_ptr<const RelativeBias> bias = nullptr;
};

// A layer's names: of its tensors and of its activations.
struct EncoderDecoderBuilder::Place {
  int64_t layer;
  std::string name;  // "model.decoder.layers.3."
  std::string site;  // "decoder.layer.3"
};

Model::Parts EncoderDecoderBuilder::Build() const {
  Model::Parts parts;
  parts.config = config_;
  parts.stack = BuildStack("encoder", config_.layers, config_.hidden);
  parts.decoder =
      BuildStack("decoder", config_.decoder, config_.decoder_hidden);
  parts.head.vocabulary =
      Output("lm_head.weight", parts.decoder->embeddings.tokens);
  parts.head.scale = config_.logit_scale;
  parts.head.bias =
      weights_.Constant("final_logits_bias", {1, config_.vocabulary});
  return parts;
}

SideNames EncoderDecoderBuilder::NamesOf(const std::string& which) const {
  return {.root = "model." + which + "."};
}

Mlp EncoderDecoderBuilder::FeedForward(const std::string& name,
                                       int64_t hidden) const {
  const int64_t d = config_.width;
  return {config_.activation, Linear(),
          Dense({Projection(name + "fc1", d, hidden)}),
          Dense({Projection(name + "fc2", hidden, d, Start::ToStream())})};
}

Stack EncoderDecoderBuilder::BuildStack(const std::string& which,
                                        const std::vector<LayerShape>& layers,
                                        int64_t hidden) const {
  Side side = {which, which == "decoder", NamesOf(which), hidden};
  const SideNames& names = side.names;
  Stack stack;
  stack.prefix = which + ".";
  Embeddings& e = stack.embeddings;
  e.tokens = Tokens(names.root + "embed_tokens.weight");
  if (config_.scale_embedding) {
    e.scale = std::sqrt(static_cast<float>(config_.width));
  }
  AddPositions(names.root, e);
  if (names.embedding_norm != nullptr) {
    e.norm = NormOf(names.root + names.embedding_norm);
  }
  const std::string each = names.root + names.layers;
  if (config_.relative.count > 0) {
    side.bias = Bias(each + "0." + names.self + names.relative_table,
                     config_.relative_heads, !side.decoder);
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    stack.blocks.push_back(Layer(side, static_cast<int64_t>(i), layers[i]));
  }
  RequireLast(each, layers);
  if (names.final_norm != nullptr) {
    stack.final_norm = NormOf(names.root + names.final_norm);
  }
  return stack;
}

void EncoderDecoderBuilder::AddPositions(const std::string& root,
                                         Embeddings& embeddings) const {
  if (config_.positions == Positions::kSinusoid) {
    embeddings.first_sinusoid = config_.position_offset;
    embeddings.sinusoids = config_.sinusoids;
  } else if (config_.positions == Positions::kLearned) {
    embeddings.position_offset = config_.position_offset;
    embeddings.positions =
        weights_.Get(root + "embed_positions.weight",
                     {config_.context + config_.position_offset, config_.width},
                     Start::Normal());
  }
}

// A side's own table, or the one that both share. Files of older versions have
// that alone although their output is not tied.
Parameter EncoderDecoderBuilder::Tokens(const std::string& own) const {
  const char* shared = shared_tokens();
  const bool absent = weights_.Find(shared) || config_.shared_embeddings;
  Parameter tokens = weights_.Maybe(own, {config_.vocabulary, config_.width},
                                    absent ? Start::Absent() : Start::Normal());
  if (tokens) return tokens;
  return weights_.Get(shared, {config_.vocabulary, config_.width},
                      Start::Normal());
}

Block EncoderDecoderBuilder::Layer(const Side& side, int64_t layer,
                                   const LayerShape& shape) const {
  const std::string number = std::to_string(layer);
  const SideNames& names = side.names;
  const Place place = {layer, names.root + names.layers + number + ".",
                       side.which + ".layer." + number};
  std::vector<BlockStep> steps;
  steps.push_back(SelfStep(side, place, shape));
  if (side.decoder) steps.push_back(OtherStep(side, place, shape));
  Mlp mlp = FeedForward(place.name + names.feed, side.hidden);
  steps.push_back(MlpStep(config_.norm_place,
                          NormOf(place.name + names.feed_norm),
                          std::move(mlp)));
  return Block(place.site, std::move(steps));
}

BlockStep EncoderDecoderBuilder::SelfStep(const Side& side, const Place& place,
                                          const LayerShape& shape) const {
  const SideNames& names = side.names;
  const std::string name = place.name + names.self;
  const std::string site = place.site + ".attention";
  AttentionLayerConfig attention = HeadsOfSide(config_, shape, shape.heads);
  if (side.decoder) attention.mask = AttentionMask::Causal();
  const int64_t d = config_.width, inner = shape.heads * attention.head_dim;
  AttentionWeights weights;
  weights.of_x = Dense({Projection(name + names.query, d, inner),
                        Projection(name + names.key, d, inner),
                        Projection(name + names.value, d, inner)});
  weights.output =
      Dense({Projection(name + names.output, inner, d, Start::ToStream())});
  weights.gates = Gates(site, shape.heads);
  weights.spans = Spans(site, shape.heads);
  weights.bias = BiasOf(shape, side.bias);
  AttentionLayer own(
      attention, std::move(weights),
      {side.decoder ? AttentionKind::kDecoder : AttentionKind::kSelf,
       place.layer, site});
  return AttentionStep(config_.norm_place, NormOf(place.name + names.self_norm),
                       std::move(own));
}

BlockStep EncoderDecoderBuilder::OtherStep(const Side& side, const Place& place,
                                           const LayerShape& shape) const {
  const SideNames& names = side.names;
  const std::string name = place.name + names.cross;
  const std::string site = place.site + ".cross";
  const AttentionLayerConfig attention =
      HeadsOfSide(config_, shape, shape.cross_heads);
  const int64_t d = config_.width;
  const int64_t inner = shape.cross_heads * attention.head_dim;
  AttentionWeights weights;
  weights.of_x = Dense({Projection(name + names.query, d, inner)});
  weights.of_memory = Dense({Projection(name + names.key, d, inner),
                             Projection(name + names.value, d, inner)});
  weights.output =
      Dense({Projection(name + names.output, inner, d, Start::ToStream())});
  weights.gates = Gates(site, shape.cross_heads);
  AttentionLayer other(attention, std::move(weights),
                       {AttentionKind::kCross, place.layer, site});
  return CrossStep(config_.norm_place, NormOf(place.name + names.cross_norm),
                   std::move(other));
}

}  // namespace headwise
