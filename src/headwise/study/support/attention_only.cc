// Models of attention alone. Door: attention_only.h.
#include "headwise/study/support/attention_only.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "headwise/model/family.h"
#include "headwise/ops/adamw/adamw.h"

namespace headwise {
namespace {

// Calls visit(before, row) for every row of a packed batch, before: the row
// before it in its sequence, or −1.
template <typename Visit>
void ForEachRow(const AttentionArgs& args, int64_t sequences,
                const Visit& visit) {
  const int32_t* starts = args.key_starts.As<int32_t>();
  for (int64_t b = 0; b < sequences; ++b) {
    for (int64_t t = starts[b]; t < starts[b + 1]; ++t) {
      visit(t > starts[b] ? t - 1 : -1, t);
    }
  }
}

// Names as Llama's, so that new weights are the same as its are.
class AttentionOnlyBuilder {
 public:
  AttentionOnlyBuilder(const ModelConfig& config, PlaceKind places,
                       const ParameterStore& store)
      : config_(config), places_(places), store_(store) {
    if (places != PlaceKind::kRotary) return;
    rope_ = std::make_shared<RopeTable>(config.ropes.at(0));
  }

  Model::Parts Build() const {
    const int64_t tokens = config_.vocabulary, width = config_.width;
    Model::Parts parts;
    parts.config = config_;
    parts.stack.embeddings.tokens = store_.Get(
        "model.embed_tokens.weight", {tokens, width}, Start::Normal());
    AddPlaces(parts.stack.embeddings);
    for (size_t i = 0; i < config_.layers.size(); ++i) {
      parts.stack.blocks.push_back(Layer(static_cast<int64_t>(i)));
    }
    parts.stack.final_norm = MakeNorm("model.norm");
    parts.head.vocabulary = Linear(
        {{store_.Get("lm_head.weight", {tokens, width}, Start::Normal()), {}}},
        WeightLayout::kOutIn);
    return parts;
  }

 private:
  void AddPlaces(Embeddings& embeddings) const {
    if (places_ == PlaceKind::kSinusoid) {
      embeddings.first_sinusoid = 0;
      embeddings.scale = std::sqrt(static_cast<float>(config_.width));
    }
    if (places_ == PlaceKind::kLearned) {
      embeddings.positions =
          store_.Get("model.embed_positions.weight",
                     {config_.context, config_.width}, Start::Normal());
    }
  }

  Norm MakeNorm(const std::string& name) const {
    return {config_.norm,
            config_.norm_epsilon,
            store_.Get(name + ".weight", {config_.width}, Start::One()),
            {}};
  }

  Block Layer(int64_t layer) const {
    const std::string name = "model.layers." + std::to_string(layer) + ".";
    const int64_t heads = config_.layers[layer].heads;
    const int64_t inner = heads * config_.head_dim;
    auto part = [&](const char* which, int64_t out, int64_t in,
                    const Start& start = Start::Normal()) {
      return Linear::Part{
          store_.Get(name + "self_attn." + which + ".weight", {out, in}, start),
          {}};
    };
    AttentionWeights weights;
    weights.of_x = Linear({part("q_proj", inner, config_.width),
                           part("k_proj", inner, config_.width),
                           part("v_proj", inner, config_.width)},
                          WeightLayout::kOutIn);
    weights.output =
        Linear({part("o_proj", config_.width, inner, Start::ToStream())},
               WeightLayout::kOutIn);
    weights.rope = rope_;
    AttentionLayerConfig attention;
    attention.heads = attention.kv_heads = heads;
    attention.head_dim = config_.head_dim;
    attention.mask = AttentionMask::Causal();
    const std::string site = "layer." + std::to_string(layer);
    AttentionLayer self(attention, std::move(weights),
                        {AttentionKind::kSelf, layer, site + ".attention"});
    return Block(site, {AttentionStep(NormPlace::kPre,
                                      MakeNorm(name + "input_layernorm"),
                                      std::move(self))});
  }

  const ModelConfig& config_;
  PlaceKind places_;
  const ParameterStore& store_;
  std::shared_ptr<const RopeTable> rope_;
};

}  // namespace

std::unique_ptr<TinyModel> MakeAttentionOnly(Context& context,
                                             const TinyShape& shape,
                                             const TrainConfig& how,
                                             PlaceKind places) {
  const ModelConfig config = ReadConfig(TinyLlama(shape), "study");
  const std::shared_ptr<ParameterStore> store =
      NewParameters(context, config, how);
  Model::Parts parts = AttentionOnlyBuilder(config, places, *store).Build();
  parts.weights = store;
  return std::make_unique<TinyModel>(
      context, store, std::make_unique<Model>(std::move(parts)), how);
}

SmearedKeys::SmearedKeys(int64_t heads)
    : logits_(heads), gradient_(heads), first_(heads), second_(heads) {}

double SmearedKeys::sigma(int64_t head) const {
  return 1 / (1 + std::exp(-static_cast<double>(logits_[head])));
}

void SmearedKeys::BeforeAttention(const AttentionSite& /*site*/,
                                  const AttentionProblem& problem,
                                  AttentionArgs& args) {
  const int64_t heads = problem.heads, dim = problem.head_dim;
  keys_ = args.k;
  smeared_.resize(keys_.shape[1] * heads * dim);
  for (int64_t h = 0; h < heads; ++h) {
    const float s = static_cast<float>(sigma(h));
    const float* from = keys_.As<float>() + h * keys_.stride[2];
    ForEachRow(args, problem.batch, [&](int64_t before, int64_t row) {
      const float* now = from + row * keys_.stride[1];
      const float* old = before < 0 ? now : from + before * keys_.stride[1];
      float* to = smeared_.data() + (row * heads + h) * dim;
      for (int64_t d = 0; d < dim; ++d) to[d] = s * now[d] + (1 - s) * old[d];
    });
  }
  args.k =
      View(std::as_const(smeared_).data(), {1, keys_.shape[1], heads, dim});
}

void SmearedKeys::AfterAttentionBackward(const AttentionSite& /*site*/,
                                         const AttentionProblem& problem,
                                         const AttentionArgs& args,
                                         const AttentionGrads& grads) {
  const TensorView& dk = grads.dk;
  for (int64_t h = 0; h < problem.heads; ++h) {
    const float s = static_cast<float>(sigma(h));
    const float* keys = keys_.As<float>() + h * keys_.stride[2];
    float* to = dk.As<float>() + h * dk.stride[2];
    double ds = 0;
    ForEachRow(args, problem.batch, [&](int64_t before, int64_t row) {
      if (before < 0) return;
      float* now = to + row * dk.stride[1];
      float* old = to + before * dk.stride[1];
      const float* k_now = keys + row * keys_.stride[1];
      const float* k_old = keys + before * keys_.stride[1];
      for (int64_t d = 0; d < problem.head_dim; ++d) {
        ds += static_cast<double>(now[d]) * (k_now[d] - k_old[d]);
        old[d] += (1 - s) * now[d];
        now[d] *= s;
      }
    });
    gradient_[h] += static_cast<float>(ds * s * (1 - s));
  }
}

void SmearedKeys::Step(Context& context, double rate) {
  AdamWProblem how;
  how.step = ++steps_;
  how.rate = static_cast<float>(rate);
  const Shape shape = {static_cast<int64_t>(logits_.size())};
  AdamW(context, how,
        {.value = View(logits_.data(), shape),
         .gradient = View(gradient_.data(), shape),
         .first = View(first_.data(), shape),
         .second = View(second_.data(), shape)});
  std::fill(gradient_.begin(), gradient_.end(), 0.0f);
}

}  // namespace headwise
