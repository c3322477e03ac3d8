// Marian's encoder–decoder (Junczys-Dowmunt et al. 2018; Vaswani et al. 2017):
// post-norm layers, sinusoid positions, shared scaled embeddings, a bias on
// the logits. Door: ../family.h.
#include <cmath>

#include "headwise/error.h"
#include "headwise/model/family.h"
#include "headwise/model/family/builder.h"

namespace headwise {
namespace {

// Settings of Marian's converted files that say another architecture.
void RequirePostNorm(const ConfigReader& reader) {
  for (const char* key :
       {"normalize_before", "normalize_embedding", "add_final_layer_norm"}) {
    reader.Require(key, false, "norms stand behind the halves of a layer");
  }
  reader.Require("static_position_embeddings", true, "positions are sinusoids");
  reader.Require("is_causal", true);
  reader.Require("is_decoder", false);
}

ModelConfig ReadEncoderDecoder(const ConfigReader& reader) {
  ModelConfig config;
  RequirePostNorm(reader);
  config.width = reader.Size({"d_model"});
  const int64_t encoder_heads = reader.Size({"encoder_attention_heads"});
  const int64_t decoder_heads = reader.Size({"decoder_attention_heads"});
  if (config.width % encoder_heads != 0) {
    reader.Fail("encoder_attention_heads", "a divisor of d_model");
  }
  if (config.width % decoder_heads != 0) {
    reader.Fail("decoder_attention_heads", "a divisor of d_model");
  }
  config.head_dim = config.width / encoder_heads;
  config.hidden = reader.Size({"encoder_ffn_dim"});
  config.decoder_hidden = reader.Size({"decoder_ffn_dim"});
  config.vocabulary = reader.Size({"vocab_size"});
  config.context = reader.Size({"max_position_embeddings"});
  config.layers = ReadLayers(reader, reader.Size({"encoder_layers"}),
                             encoder_heads, encoder_heads);
  const int64_t decoder_layers = reader.Size({"decoder_layers"});
  if (decoder_layers > kMostLayers) {
    reader.Fail("decoder_layers", "at most " + std::to_string(kMostLayers));
  }
  config.decoder.assign(decoder_layers,
                        {.heads = decoder_heads,
                         .kv_heads = decoder_heads,
                         .cross_heads = decoder_heads,
                         .head_dim = config.width / decoder_heads});
  ReadCounts(reader, "decoder_heads_per_layer", &LayerShape::heads,
             config.decoder);
  ReadCounts(reader, "cross_heads_per_layer", &LayerShape::cross_heads,
             config.decoder);
  for (LayerShape& shape : config.decoder) shape.kv_heads = shape.heads;
  config.norm_place = NormPlace::kPost;
  config.activation = ReadActivation(reader, "activation_function", "gelu");
  config.positions = Positions::kSinusoid;
  config.scale_embedding = reader.Flag("scale_embedding", false);
  const bool shared = reader.Flag("share_encoder_decoder_embeddings", true);
  config.tied_embeddings = reader.Flag("tie_word_embeddings", true);
  config.shared_embeddings = shared && config.tied_embeddings;
  if (!shared) {
    reader.Require("decoder_vocab_size", config.vocabulary,
                   "both sides have one vocabulary here");
  }
  config.eos = reader.Ids("eos_token_id");
  const auto pad = reader.Ids("pad_token_id");
  const auto start = reader.Ids("decoder_start_token_id");
  config.pad = pad.empty() ? -1 : pad[0];
  config.decoder_start = start.empty() ? config.pad : start[0];
  return config;
}

class EncoderDecoderBuilder : private FamilyBuilder {
 public:
  EncoderDecoderBuilder(const ModelConfig& config, const WeightSource& weights)
      : FamilyBuilder(config, weights) {}

  Model::Parts Build() const {
    Model::Parts parts;
    parts.config = config_;
    parts.stack = BuildStack("encoder", config_.layers, config_.hidden);
    parts.decoder =
        BuildStack("decoder", config_.decoder, config_.decoder_hidden);
    parts.head.vocabulary =
        Output("lm_head.weight", parts.decoder->embeddings.tokens);
    parts.head.bias =
        weights_.Constant("final_logits_bias", {1, config_.vocabulary});
    return parts;
  }

 private:
  Stack BuildStack(const std::string& which,
                   const std::vector<LayerShape>& layers,
                   int64_t hidden) const {
    Stack stack;
    stack.prefix = which + ".";
    const std::string root = "model." + which + ".";
    stack.embeddings.tokens = Tokens(root + "embed_tokens.weight");
    stack.embeddings.first_sinusoid = 0;
    if (config_.scale_embedding) {
      stack.embeddings.scale = std::sqrt(static_cast<float>(config_.width));
    }
    for (size_t i = 0; i < layers.size(); ++i) {
      stack.blocks.push_back(
          Layer(which, static_cast<int64_t>(i), layers[i], hidden));
    }
    RequireLast(root + "layers.", layers);
    return stack;
  }

  // A side's own table, or the one that both share. Files of older versions
  // have that alone although their output is not tied.
  Parameter Tokens(const std::string& own) const {
    const char* shared = "model.shared.weight";
    const bool absent = weights_.Find(shared) || config_.shared_embeddings;
    Parameter tokens =
        weights_.Maybe(own, {config_.vocabulary, config_.width},
                       absent ? Start::Absent() : Start::Normal());
    if (tokens) return tokens;
    return weights_.Get(shared, {config_.vocabulary, config_.width},
                        Start::Normal());
  }

  Block Layer(const std::string& which, int64_t layer, const LayerShape& shape,
              int64_t hidden) const {
    const bool decoder = which == "decoder";
    const std::string number = std::to_string(layer);
    const std::string name = "model." + which + ".layers." + number + ".";
    const std::string site = which + ".layer." + number;
    std::vector<BlockStep> steps;
    const int64_t dim = config_.HeadDim(shape);
    AttentionLayerConfig self = Heads(shape.heads, dim);
    if (decoder) self.mask = AttentionMask::Causal();
    AttentionWeights weights =
        SelfWeights(name + "self_attn.", shape.heads * dim);
    weights.gates = Gates(site + ".attention", shape.heads);
    weights.spans = Spans(site + ".attention", shape.heads);
    AttentionLayer own(
        self, std::move(weights),
        {decoder ? AttentionKind::kDecoder : AttentionKind::kSelf, layer,
         site + ".attention"});
    steps.push_back(AttentionStep(NormPlace::kPost,
                                  LayerNorm(name + "self_attn_layer_norm"),
                                  std::move(own)));
    if (decoder) {
      AttentionWeights cross =
          CrossWeights(name + "encoder_attn.", shape.cross_heads * dim);
      cross.gates = Gates(site + ".cross", shape.cross_heads);
      AttentionLayer other(Heads(shape.cross_heads, dim), std::move(cross),
                           {AttentionKind::kCross, layer, site + ".cross"});
      steps.push_back(CrossStep(NormPlace::kPost,
                                LayerNorm(name + "encoder_attn_layer_norm"),
                                std::move(other)));
    }
    Mlp mlp(
        config_.activation, Linear(),
        Dense({Part(name + "fc1", config_.width, hidden, Start::Normal())}),
        Dense({Part(name + "fc2", hidden, config_.width, Start::ToStream())}));
    Norm norm = LayerNorm(name + "final_layer_norm");
    steps.push_back(MlpStep(NormPlace::kPost, std::move(norm), std::move(mlp)));
    return Block(site, std::move(steps));
  }

  static AttentionLayerConfig Heads(int64_t heads, int64_t dim) {
    AttentionLayerConfig attention;
    attention.heads = attention.kv_heads = heads;
    attention.head_dim = dim;
    return attention;
  }

  AttentionWeights SelfWeights(const std::string& name, int64_t inner) const {
    const int64_t d = config_.width;
    AttentionWeights weights;
    weights.of_x = Dense({Part(name + "q_proj", d, inner, Start::Normal()),
                          Part(name + "k_proj", d, inner, Start::Normal()),
                          Part(name + "v_proj", d, inner, Start::Normal())});
    weights.output =
        Dense({Part(name + "out_proj", inner, d, Start::ToStream())});
    return weights;
  }

  AttentionWeights CrossWeights(const std::string& name, int64_t inner) const {
    const int64_t d = config_.width;
    AttentionWeights weights;
    weights.of_x = Dense({Part(name + "q_proj", d, inner, Start::Normal())});
    weights.of_memory =
        Dense({Part(name + "k_proj", d, inner, Start::Normal()),
               Part(name + "v_proj", d, inner, Start::Normal())});
    weights.output =
        Dense({Part(name + "out_proj", inner, d, Start::ToStream())});
    return weights;
  }
};

Model::Parts BuildEncoderDecoder(const ModelConfig& config,
                                 const WeightSource& weights) {
  return EncoderDecoderBuilder(config, weights).Build();
}

}  // namespace

// Passes over tables of sinusoids, which are computed.
const Family kEncoderDecoderFamily = {"encoder_decoder",
                                      {"marian"},
                                      ReadEncoderDecoder,
                                      BuildEncoderDecoder,
                                      {"embed_positions.weight"}};

}  // namespace headwise
