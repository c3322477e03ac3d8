// GPT-2 (Radford et al. 2019): pre-norm decoder, learned positions, one fused
// query/key/value matrix stored [in, out]. Also minGPT's gpt-nano, which is
// the same with matrices stored [out, in]. Door: ../family.h.
#include <cmath>

#include "headwise/error.h"
#include "headwise/model/family.h"
#include "headwise/model/family/builder.h"

namespace headwise {
namespace {

// The factor of the scores, which may fall from layer to layer.
// (reorder_and_upcast_attn says in which type they are made: ours is always
// f32, which is what it asks for.)
void ReadScales(const ConfigReader& reader, ModelConfig& config) {
  const bool by_width = reader.Flag("scale_attn_weights", true);
  const bool by_layer = reader.Flag("scale_attn_by_inverse_layer_idx", false);
  if (by_width && !by_layer) return;
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const auto width = static_cast<double>(config.head_dim);
    double scale = by_width ? 1 / std::sqrt(width) : 1;
    if (by_layer) scale /= static_cast<double>(i + 1);
    config.layers[i].scale = static_cast<float>(scale);
  }
}

ModelConfig ReadGpt2(const ConfigReader& reader) {
  reader.Require("is_causal", true);
  ModelConfig config;
  config.width = reader.Size({"n_embd", "hidden_size"});
  const int64_t heads = reader.Size({"n_head", "num_attention_heads"});
  if (config.width % heads != 0 && !reader.Has("head_dim")) {
    reader.Fail("n_head", "a divisor of n_embd");
  }
  config.head_dim = reader.Size({"head_dim"}, config.width / heads);
  config.hidden = reader.Size({"n_inner"}, 4 * config.width);
  config.vocabulary = reader.Size({"vocab_size"});
  config.context = reader.Size({"n_positions", "n_ctx", "block_size"});
  config.layers = ReadLayers(
      reader, reader.Size({"n_layer", "num_hidden_layers"}), heads, heads);
  config.causal = true;
  config.norm_epsilon = reader.Epsilon("layer_norm_epsilon", 1e-5);
  config.activation = ReadActivation(reader, "activation_function", "gelu_new");
  config.positions = Positions::kLearned;
  config.tied_embeddings = reader.Flag("tie_word_embeddings", true);
  ReadEnds(reader, config);
  ReadScales(reader, config);
  return config;
}

// Names and shapes of one checkpoint.
class Gpt2Builder : private FamilyBuilder {
 public:
  Gpt2Builder(const ModelConfig& config, const WeightSource& weights)
      : FamilyBuilder(config, weights) {
    if (!weights_.Find("wte.weight")) root_ = "transformer.";
    // A matrix that is not square tells the two layouts apart. The fused one
    // is square where a third of the heads is left.
    for (const char* name : {"attn.c_attn.weight", "mlp.c_fc.weight"}) {
      const ConstTensorView matrix = weights_.Find(root_ + "h.0." + name);
      if (!matrix || matrix.rank != 2 || matrix.shape[0] == matrix.shape[1]) {
        continue;
      }
      if (matrix.shape[1] == config_.width) layout_ = WeightLayout::kOutIn;
      break;
    }
  }

  Model::Parts Build() const {
    Model::Parts parts;
    parts.config = config_;
    Embeddings& e = parts.stack.embeddings;
    e.tokens =
        weights_.Get(root_ + "wte.weight", {config_.vocabulary, config_.width},
                     Start::Normal());
    e.positions =
        weights_.Get(root_ + "wpe.weight", {config_.context, config_.width},
                     Start::Normal());
    for (size_t i = 0; i < config_.layers.size(); ++i) {
      parts.stack.blocks.push_back(Layer(static_cast<int64_t>(i)));
    }
    RequireLast(root_ + "h.", config_.layers);
    parts.stack.final_norm = LayerNorm(root_ + "ln_f");
    parts.head.vocabulary = Output("lm_head.weight", e.tokens);
    return parts;
  }

 private:
  Block Layer(int64_t layer) const {
    const LayerShape& shape = config_.layers[layer];
    const std::string name = root_ + "h." + std::to_string(layer) + ".";
    const int64_t inner = shape.heads * config_.head_dim;
    AttentionLayerConfig attention;
    attention.heads = attention.kv_heads = shape.heads;
    attention.head_dim = config_.head_dim;
    attention.scale = shape.scale;
    attention.mask = AttentionMask::Causal();
    AttentionWeights weights;
    weights.of_x =
        Stored(name + "attn.c_attn", config_.width, 3 * inner, Start::Normal());
    weights.output =
        Stored(name + "attn.c_proj", inner, config_.width, Start::ToStream());
    const std::string site = "layer." + std::to_string(layer);
    weights.gates = Gates(site + ".attention", shape.heads);
    weights.spans = Spans(site + ".attention", shape.heads);
    AttentionLayer self(attention, std::move(weights),
                        {AttentionKind::kSelf, layer, site + ".attention"});
    BlockStep attend = AttentionStep(NormPlace::kPre, LayerNorm(name + "ln_1"),
                                     std::move(self));
    Mlp mlp(config_.activation, Linear(),
            Stored(name + "mlp.c_fc", config_.width, config_.hidden,
                   Start::Normal()),
            Stored(name + "mlp.c_proj", config_.hidden, config_.width,
                   Start::ToStream()));
    Norm norm = LayerNorm(name + "ln_2");
    return Block(site,
                 {std::move(attend),
                  MlpStep(NormPlace::kPre, std::move(norm), std::move(mlp))});
  }

  Linear Stored(const std::string& name, int64_t in, int64_t out,
                const Start& start) const {
    const bool in_out = layout_ == WeightLayout::kInOut;
    return Linear({{in_out ? weights_.Get(name + ".weight", {in, out}, start)
                           : weights_.Get(name + ".weight", {out, in}, start),
                    weights_.Maybe(name + ".bias", {out}, Start::Zero())}},
                  layout_);
  }

  std::string root_;
  WeightLayout layout_ = WeightLayout::kInOut;
};

Model::Parts BuildGpt2(const ModelConfig& config, const WeightSource& weights) {
  return Gpt2Builder(config, weights).Build();
}

}  // namespace

// Passes over masks.
const Family kGpt2Family = {"gpt2",
                            {"gpt2", "gpt-nano"},
                            ReadGpt2,
                            BuildGpt2,
                            {".attn.bias", ".attn.masked_bias"}};

}  // namespace headwise
