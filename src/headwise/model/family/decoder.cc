// Door: decoder.h.
#include "headwise/model/family/decoder.h"

#include <algorithm>
#include <utility>

#include "headwise/error.h"
#include "headwise/model/rope_settings.h"
#include "headwise/ops/copy/copy.h"

namespace headwise {
namespace {

// More is a broken file: layers are listed before any weight is looked at.
constexpr int64_t kMostExperts = 1 << 14;

int64_t ReadHeadDim(const ConfigReader& reader, const DecoderKeys& keys,
                    int64_t width, int64_t heads) {
  const bool said = reader.Has("head_dim") && !keys.divided_width;
  if (width % heads != 0 && !said && keys.head_dim == 0) {
    reader.Fail("num_attention_heads", "a divisor of hidden_size",
                "an explicit head_dim lifts this");
  }
  if (keys.divided_width) {
    reader.Require("head_dim", width / heads,
                   "heads are hidden_size / num_attention_heads wide");
  }
  const int64_t head_dim = reader.Size(
      {"head_dim"}, keys.head_dim > 0 ? keys.head_dim : width / heads);
  if (keys.even_heads && head_dim % 2 != 0) {
    reader.Fail(said ? "head_dim" : "num_attention_heads",
                "such that heads have an even width, since rotary positions "
                "turn pairs of numbers",
                "heads of " + std::to_string(head_dim) +
                    ": take fewer of them, or set head_dim to an even number");
  }
  return head_dim;
}

}  // namespace

ModelConfig ReadDecoder(const ConfigReader& reader, const DecoderKeys& keys) {
  ModelConfig config;
  reader.Require("is_causal", true);
  config.width = reader.Size({"hidden_size"});
  const int64_t heads = reader.Size({"num_attention_heads"});
  const int64_t kv_heads = reader.Size(
      {"num_key_value_heads"},
      keys.other_kv_heads > 0 && !reader.json().contains("num_key_value_heads")
          ? keys.other_kv_heads
          : heads);
  if (heads % kv_heads != 0) {
    reader.Fail("num_key_value_heads", "a divisor of num_attention_heads");
  }
  config.head_dim = ReadHeadDim(reader, keys, config.width, heads);
  config.hidden = reader.Size({"intermediate_size"});
  config.vocabulary = reader.Size({"vocab_size"});
  config.context = ReadContext(reader);
  config.layers =
      ReadLayers(reader, reader.Size({"num_hidden_layers"}), heads, kv_heads);
  config.causal = true;
  config.norm = NormKind::kRms;
  config.norm_epsilon = reader.Epsilon(keys.epsilon, keys.other_epsilon);
  config.activation =
      ReadActivation(reader, keys.activation, keys.other_activation);
  config.gated = true;
  config.positions = Positions::kRotary;
  config.tied_embeddings = reader.Flag("tie_word_embeddings", keys.tied);
  const std::vector<int64_t> bos = reader.Ids("bos_token_id");
  config.bos = bos.empty() ? -1 : bos[0];
  config.eos = reader.Ids("eos_token_id");
  return config;
}

std::vector<std::string> ReadLayerTypes(
    const ConfigReader& reader, size_t layers,
    std::initializer_list<const char*> known,
    const std::function<std::string(int64_t layer)>& other) {
  std::vector<std::string> read;
  if (!reader.Has("layer_types")) {
    for (size_t i = 0; i < layers; ++i) {
      read.push_back(other(static_cast<int64_t>(i)));
    }
    return read;
  }
  const Json& types = reader.json()["layer_types"];
  if (!types.is_array() || types.size() != layers) {
    reader.Fail("layer_types", "one type a layer");
  }
  for (const Json& type : types) {
    const auto found =
        std::find_if(known.begin(), known.end(),
                     [&](const char* one) { return type == one; });
    if (found == known.end()) {
      std::string words;
      for (const char* one : known) {
        words += (words.empty() ? "" : " or ") + std::string(one);
      }
      reader.Fail("layer_types", words + " for each layer");
    }
    read.emplace_back(*found);
  }
  return read;
}

void ReadWindows(const ConfigReader& reader, int64_t window, const char* hint,
                 const std::function<bool(int64_t layer)>& other_sliding,
                 ModelConfig& config) {
  const std::vector<std::string> types = ReadLayerTypes(
      reader, config.layers.size(), {"full_attention", "sliding_attention"},
      [&](int64_t layer) -> std::string {
        return other_sliding(layer) ? "sliding_attention" : "full_attention";
      });
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] != "sliding_attention") continue;
    if (window == 0 && reader.Has("layer_types")) {
      reader.Fail("layer_types", "full_attention for each layer", hint);
    }
    config.layers[i].window = window;
  }
}

MixtureConfig ReadMixture(const ConfigReader& reader, const MixtureKeys& keys) {
  MixtureConfig mixture;
  mixture.experts = reader.Has(keys.experts)
                        ? reader.Count(keys.experts, 0)
                        : reader.Size({keys.same_experts}, keys.other_experts);
  mixture.router.active = reader.Size({keys.active}, keys.other_active);
  if (mixture.experts > kMostExperts) {
    reader.Fail(keys.experts,
                "at most " + std::to_string(kMostExperts) + " experts");
  }
  if (mixture.experts > 0 && mixture.router.active > mixture.experts) {
    reader.Fail(keys.active, "at most the " + std::to_string(mixture.experts) +
                                 " experts of a layer");
  }
  return mixture;
}

void SetMixture(const ModelConfig& config, LayerShape& layer) {
  const MixtureConfig& mixture = config.mixture;
  layer.mixture = true;
  layer.hidden = mixture.router.active * mixture.hidden + mixture.shared_hidden;
}

Model::Parts DecoderBuilder::Build() const {
  Model::Parts parts;
  parts.config = config_;
  parts.stack.embeddings.tokens =
      weights_.Get("model.embed_tokens.weight",
                   {config_.vocabulary, config_.width}, Start::Normal());
  for (size_t i = 0; i < config_.layers.size(); ++i) {
    parts.stack.blocks.push_back(Layer(static_cast<int64_t>(i)));
  }
  RequireLast("model.layers.", config_.layers);
  parts.stack.embeddings.scale = config_.embedding_scale;
  parts.stack.final_norm = NormOf("model.norm", config_.width);
  parts.head.vocabulary =
      Output("lm_head.weight", parts.stack.embeddings.tokens);
  parts.head.scale = config_.logit_scale;
  parts.head.soft_cap = config_.logit_cap;
  parts.made = std::move(made_);
  return parts;
}

Norm DecoderBuilder::NormOf(const std::string& name, int64_t width) const {
  return config_.norm == NormKind::kRms ? RmsNorm(name, width)
                                        : LayerNorm(name);
}

float DecoderBuilder::NumberOr(const std::string& name, float other) const {
  const Parameter number = weights_.Constant(name, {1});
  if (!number) return other;
  Context context({.threads = 1, .device = number.value.device});
  const Tensor value = ToF32(context, number);
  Context host({.threads = 1});
  return ToVector<float>(host, value.view())[0];
}

Mlp DecoderBuilder::DenseMlp(const std::string& name, int64_t hidden,
                             const MlpNames& names) const {
  auto dense = [&](const char* which, int64_t in, int64_t out,
                   const Start& start) {
    return Dense({Biased(config_.mlp_bias, name + which, in, out, start)});
  };
  // Braces keep the order, so that an error names the first that is wrong.
  return Mlp{config_.activation,
             dense(names.gate, config_.width, hidden, Start::Normal()),
             dense(names.up, config_.width, hidden, Start::Normal()),
             dense(names.down, hidden, config_.width, Start::ToStream())};
}

Linear DecoderBuilder::Projections(const DecoderLayer& layer,
                                   const std::string& attn) const {
  const int64_t head_dim = config_.HeadDim(layer.shape);
  auto part = [&](const char* which, int64_t heads) {
    return Biased(config_.attention_bias, attn + which, config_.width,
                  heads * head_dim, Start::Normal());
  };
  std::vector<Linear::Part> parts = {part("q_proj", layer.shape.heads)};
  if (layer.shape.keys_of < 0) {
    parts.push_back(part("k_proj", layer.shape.kv_heads));
    if (!layer.shape.keys_are_values) {
      parts.push_back(part("v_proj", layer.shape.kv_heads));
    }
  }
  return Dense(std::move(parts));
}

void DecoderBuilder::Feed(const DecoderLayer& layer, BlockStep& step) const {
  step.mlp = DenseMlp(layer.name + "mlp.", config_.Hidden(layer.shape));
}

void DecoderBuilder::PlaceNorms(const DecoderLayer& layer, BlockStep& attend,
                                BlockStep& feed) const {
  attend.before = NormOf(layer.name + "input_layernorm", config_.width);
  feed.before = NormOf(layer.name + "post_attention_layernorm", config_.width);
}

void DecoderBuilder::PlaceNormsAround(const DecoderLayer& layer,
                                      BlockStep& attend,
                                      BlockStep& feed) const {
  attend.before = NormOf(layer.name + "input_layernorm", config_.width);
  feed.before = NormOf(layer.name + "pre_feedforward_layernorm", config_.width);
  PlaceNormsAfter(layer, attend, feed);
}

void DecoderBuilder::PlaceNormsAfter(const DecoderLayer& layer,
                                     BlockStep& attend, BlockStep& feed) const {
  attend.after = NormOf(layer.name + "post_attention_layernorm", config_.width);
  feed.after = NormOf(layer.name + "post_feedforward_layernorm", config_.width);
}

Block DecoderBuilder::Layer(int64_t index) const {
  const DecoderLayer layer = {
      .index = index,
      .shape = config_.layers[index],
      .name = "model.layers." + std::to_string(index) + ".",
      .site = "layer." + std::to_string(index)};
  BlockStep attend = Attend(layer);
  BlockStep feed;
  feed.kind = StepKind::kFeedForward;
  Feed(layer, feed);
  PlaceNorms(layer, attend, feed);
  attend.scale = feed.scale = config_.residual_scale;
  return Block(layer.site, {std::move(attend), std::move(feed)});
}

BlockStep DecoderBuilder::Attend(const DecoderLayer& layer) const {
  const LayerShape& shape = layer.shape;
  const std::string attn = layer.name + "self_attn.";
  const std::string site = layer.site + ".attention";
  AttentionLayerConfig attention;
  attention.heads = shape.heads;
  attention.kv_heads = shape.kv_heads;
  attention.head_dim = config_.HeadDim(shape);
  attention.scale = shape.scale;
  attention.soft_cap = config_.score_cap;
  attention.keys_are_values = shape.keys_are_values;
  attention.keys_of = shape.keys_of;
  attention.shares_keys = std::ranges::any_of(
      config_.layers,
      [&](const LayerShape& other) { return other.keys_of == layer.index; });
  attention.mask = MaskOf(config_, shape);
  AttentionWeights weights;
  weights.of_x = Projections(layer, attn);
  // Where heads were folded there is a bias whatever the configuration says.
  weights.output =
      Dense({Part(attn + "o_proj", shape.heads * config_.ValueDim(shape),
                  config_.width, Start::ToStream(),
                  config_.output_bias ? Start::Zero() : Start::Absent())});
  weights.rope = Rope(shape);
  weights.gates = Gates(site, shape.heads);
  weights.spans = Spans(site, shape.heads);
  Complete(layer, attn, attention, weights);
  BlockStep step;
  step.attention = AttentionLayer(attention, std::move(weights),
                                  {AttentionKind::kSelf, layer.index, site});
  return step;
}

}  // namespace headwise
