// A model's configuration, in one vocabulary for all families. Family files
// read it from a checkpoint's config.json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headwise/attention.h"
#include "headwise/base/json.h"
#include "headwise/model/sinusoids.h"
#include "headwise/nn/block.h"
#include "headwise/nn/relative_bias.h"
#include "headwise/ops/activation/activation.h"
#include "headwise/ops/norm/norm.h"
#include "headwise/ops/rope/rope.h"

namespace headwise {

// Layers may differ in every number: pruning leaves them so.
struct LayerShape {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t cross_heads = 0;  // decoders of encoder–decoders
  // Keys a query sees; 0: all. Without causality half of the others on each
  // side.
  int64_t window = 0;
  int64_t head_dim = 0;   // 0: the model's
  int64_t value_dim = 0;  // 0: as wide as keys
  float scale = 0;        // of the scores; 0: 1/√head_dim
  // Columns of the feed-forward half that serve a token; 0: the model's.
  int64_t hidden = 0;
  bool mixture = false;  // of experts
  // The layer whose keys and values are attended to; negative: its own.
  int64_t keys_of = -1;
  bool keys_are_values = false;  // before norms and turns
  // The first layer that has these weights, where layers share them: a head is
  // then one head, used in several layers; negative: it shares none.
  int64_t weights_of = -1;
  // How queries and keys turn: the model's ropes[rope], or kNoRope.
  int64_t rope = 0;
  // Columns of the relative table, or slopes, that the heads of a pruned layer
  // have; empty: all, in their order.
  std::vector<int32_t> bias_columns = {};
};
inline constexpr int64_t kNoRope = -1;

enum class Positions : uint8_t {
  kNone,
  kLearned,
  kSinusoid,
  kRotary,
  kRelative,  // a bias of scores alone
};

// Widths of what queries and keys come of, where that is narrower than they
// are (latent_projections.h).
struct LatentConfig {
  int64_t queries = 0;  // 0: queries come of x
  int64_t keys = 0;     // 0: there are no latents
  int64_t shared = 0;   // numbers of a key that all heads share
};

// Feed-forward halves that are mixtures of experts.
struct MixtureConfig {
  int64_t experts = 0;
  int64_t hidden = 0;         // of an expert
  int64_t shared_hidden = 0;  // of the expert of every token; 0: none
  ExpertRouterConfig router;
};

struct ModelConfig {
  std::string family;      // "llama"
  std::string model_type;  // "qwen2"
  int64_t width = 0;       // d_model
  // Of tables, and of the output matrix, that are projected; 0: width.
  int64_t embedding_width = 0;
  int64_t head_dim = 0;  // of layers that say no other
  int64_t hidden = 0;    // of the feed-forward half
  int64_t vocabulary = 0;
  int64_t context = 0;              // positions the model knows
  std::vector<LayerShape> layers;   // of the encoder, where there are two
  std::vector<LayerShape> decoder;  // of an encoder–decoder's decoder
  int64_t group_layers = 1;         // ALBERT: layers of a group that is shared
  int64_t decoder_hidden = 0;
  MixtureConfig mixture;  // of layers that say so
  bool causal = false;
  NormPlace norm_place = NormPlace::kPre;
  NormKind norm = NormKind::kLayer;
  float norm_epsilon = 1e-5f;
  float norm_offset = 0;  // norms multiply by weight + offset
  bool norm_bias = true;  // of norms that center
  Activation activation = Activation::kGelu;
  bool gated = false;
  bool parallel = false;  // a layer's two halves read one x
  Positions positions = Positions::kNone;
  int64_t position_offset = 0;  // first row of the position table that is used
  // Ways to turn, of which each layer has one; none but for kRotary.
  std::vector<RopeConfig> ropes = {};
  RelativeBuckets relative;    // of the bias of scores; without buckets: none
  int64_t relative_heads = 0;  // columns of its table
  int64_t alibi_heads = 0;     // of which there are slopes (ALiBi); 0: none
  SinusoidRule sinusoids = SinusoidRule::kWidth;
  bool scale_embedding = false;  // token embeddings · √width
  float embedding_scale = 1;     // of token embeddings, besides that
  float residual_scale = 1;      // of what layers add
  float score_cap = 0;           // of attention's scores; 0: none
  float logit_scale = 1;
  float logit_cap = 0;           // 0: none
  bool tied_embeddings = false;  // the output matrix is the token embeddings
  // Encoder–decoders: both sides and the output read one table.
  bool shared_embeddings = false;
  bool final_norm = true;       // behind the layers
  bool query_key_norm = false;  // of query and key heads
  bool attention_bias = false;  // on queries, keys and values
  bool query_norms = false;     // on queries and keys, where that is a choice
  bool output_bias = false;     // of new models, behind the heads
  // Of the masked-LM head.
  Activation head_activation = Activation::kGelu;
  bool transform_bias = true;
  bool head_bias = true;
  bool mlp_bias = false;
  LatentConfig latents;
  GateConfig gates;  // of every attention layer
  SpanConfig spans;  // of self-attention
  int64_t bos = -1;
  std::vector<int64_t> eos;
  int64_t pad = -1;
  bool padding_learns = false;  // its embedding is trained as any other
  int64_t decoder_start = -1;

  bool encoder_decoder() const { return !decoder.empty(); }
  // Whether positions go on behind `context`: no table ends.
  bool open_positions() const {
    return positions == Positions::kRotary || positions == Positions::kNone ||
           positions == Positions::kRelative;
  }
  int64_t HeadDim(const LayerShape& layer) const {
    return layer.head_dim > 0 ? layer.head_dim : head_dim;
  }
  int64_t Hidden(const LayerShape& layer) const {
    return layer.hidden > 0 ? layer.hidden : hidden;
  }
  int64_t EmbeddingWidth() const {
    return embedding_width > 0 ? embedding_width : width;
  }
  int64_t ValueDim(const LayerShape& layer) const {
    return layer.value_dim > 0 ? layer.value_dim : HeadDim(layer);
  }
};

// The layers that have the weights of one, ascending, itself among them.
std::vector<int64_t> LayersSharing(const ModelConfig& config, int64_t layer);

// Of self-attention in a layer of a model of one stack.
AttentionMask MaskOf(const ModelConfig& config, const LayerShape& layer);

// More is a broken file: shapes are listed before any weight is looked at.
inline constexpr int64_t kMostLayers = 4096;

// A config.json in its readers' words: keys of several names, sizes, ids.
// Every error names file and key.
class ConfigReader {
 public:
  ConfigReader(const Json& json, std::string file);

  bool Has(const char* key) const;
  // The first of `keys` that is there and not null. Without one: throws
  // Error(kCorrupt) naming them. Integers are in [1, 2^40).
  int64_t Size(std::initializer_list<const char*> keys) const;
  int64_t Size(std::initializer_list<const char*> keys, int64_t other) const;
  // In [0, 2^40).
  int64_t Count(const char* key, int64_t other) const;
  double Number(const char* key, double other) const;
  // Added to a variance by norms, in [0, 1].
  float Epsilon(const char* key, double other) const;
  bool Flag(const char* key, bool other) const;
  std::string Text(const char* key, const std::string& other) const;
  // One id of 32 bits or a list of them; absent: empty.
  std::vector<int64_t> Ids(const char* key) const;
  const Json& json() const { return root_.value(); }
  const std::string& file() const { return root_.where(); }
  // For what only several keys together show.
  [[noreturn]] void Fail(const std::string& key, const std::string& expected,
                         const std::string& hint = "") const;
  // Throws Error(kUnsupported) for a key that is there, is not null and says
  // anything but `only`: results would be others than the checkpoint's.
  void Require(const char* key, const Json& only,
               const std::string& hint = "") const;

 private:
  JsonCursor root_;
};

// Refuses what no family computes, by the names that transformers reads.
// quantization: the quant_method that this one knows; null: none.
void RequireKnownSettings(const ConfigReader& config, const char* quantization);

// gelu, gelu_new, relu, silu, swish, … as Hugging Face names them.
Activation ReadActivation(const ConfigReader& config, const char* key,
                          const char* other);

// The same of a name that was found out otherwise; errors name the key.
Activation ActivationNamed(const ConfigReader& config, const char* key,
                           const std::string& name);

// One count a layer, where the key is there.
void ReadCounts(const ConfigReader& config, const char* key,
                int64_t LayerShape::*member, std::vector<LayerShape>& layers);

// LayerShape::bias_columns, one list a layer, of a relative table with
// `columns` columns, or of so many slopes. The key has to be there where a
// layer has fewer heads.
void ReadBiasColumns(const ConfigReader& config, const char* key,
                     int64_t columns, std::vector<LayerShape>& layers);

// Buckets under their keys. Throws Error naming them for buckets that
// transformers cannot compute or that are too many.
RelativeBuckets ReadBuckets(const ConfigReader& config, const char* count,
                            const char* max_distance);

// `layers` equal shapes, then what "heads_per_layer" and "kv_heads_per_layer"
// (lists) or "pruned_heads" (layer → removed heads) change.
std::vector<LayerShape> ReadLayers(const ConfigReader& config, int64_t layers,
                                   int64_t heads, int64_t kv_heads);

// The first id of "bos_token_id" and those of "eos_token_id".
void ReadEnds(const ConfigReader& reader, ModelConfig& config);

// config.json's "headwise" object, which is ours and which others pass over:
// {"gates": "mixture", "shared_heads": 2, "active_heads": 5, "span_ramp": 32}.
// Sets gates and spans; the rest is known already.
void ReadHeadChoice(const ConfigReader& reader, ModelConfig& config);
// "open", "hard_concrete", "mixture"
const char* Name(GateKind kind);

}  // namespace headwise
