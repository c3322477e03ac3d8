// Path effects: every head of a layer is taken away in a sequence of its own,
// all of them in one batch, starting from the stream below that layer.
// Door: composition.h.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "headwise/base/stop.h"
#include "headwise/error.h"
#include "headwise/heads/composition/composition.h"
#include "headwise/nn/gated_sites.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/matrix.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

// Rows of a batch: bounds the memory of wide models.
constexpr int64_t kMostEffectRows = 8192;

constexpr std::array<const char*, 3> kParts = {".query", ".key", ".value"};

// Queries, keys and values of the layers of a run: [rows, heads, dim] each.
class TakeInputs : public RunHooks {
 public:
  TakeInputs(Context& context, const Model& model) : context_(context) {
    for (const AttentionLayer* layer :
         AttentionLayers(model, AttentionKind::kSelf)) {
      for (const char* part : kParts) {
        wanted_[layer->site().name + part] = {};
      }
      wanted_[layer->site().name + ".head_output"] = {};
    }
  }
  bool Wants(std::string_view name) const override {
    return wanted_.contains(std::string(name));
  }
  void Take(std::string_view name, ConstTensorView value) override {
    wanted_[std::string(name)] = ToVector<float>(context_, value);
  }
  const std::vector<float>& Of(const AttentionLayer& layer,
                               const char* part) const {
    return wanted_.at(layer.site().name + part);
  }

 private:
  Context& context_;
  std::map<std::string, std::vector<float>> wanted_;
};

// Sequence s of `count`, of as many tokens each, runs with head first + s of
// the layer replaced by its mean (means [heads, E]).
GatedSites WithoutHeads(const AttentionLayer& layer, int64_t first,
                        int64_t count, int64_t tokens, Tensor means) {
  const int64_t heads = layer.config().heads;
  GatedSites without;
  SiteGates& site = without.sites[layer.site().name];
  site.rows = Tensor(DType::kF32, {count * tokens, heads});
  float* gates = site.rows.As<float>();
  std::fill_n(gates, site.rows.size(), 1.0f);
  for (int64_t s = 0; s < count; ++s) {
    for (int64_t t = 0; t < tokens; ++t) {
      gates[(s * tokens + t) * heads + first + s] = 0;
    }
  }
  site.memory = std::move(means);
  site.replacement = std::as_const(site.memory).view();
  return without;
}

// Squared changes and sizes, [heads, heads] by input.
struct Changes {
  std::array<Matrix, 3> change, size;
};

class EffectRun {
 public:
  EffectRun(Context& context, const Model& model, Changes& changes)
      : context_(context),
        model_(model),
        layers_(AttentionLayers(model, AttentionKind::kSelf)),
        changes_(changes) {
    for (const AttentionLayer* layer : layers_) {
      first_.push_back(heads_);
      heads_ += layer->config().heads;
    }
    for (size_t i = 0; i < 3; ++i) {
      changes_.change[i] = changes_.size[i] = Matrix(heads_, heads_);
    }
  }

  void Add(const TokenWindow& window) {
    const int64_t tokens = window.source.size(), width = model_.config().width;
    TakeInputs clean(context_, model_);
    std::vector<Tensor> streams;  // below each layer
    const SequenceBatch batch = MakeBatch(std::vector<int64_t>{tokens});
    StackInput input;
    input.ids = window.source.ids;
    input.batch = &batch;
    input.hooks = &clean;
    Tensor x(context_, model_.type(), {tokens, width});
    model_.Embed(context_, model_.stack(), input, x.view());
    for (size_t layer = 0; layer < layers_.size(); ++layer) {
      streams.push_back(ToDevice(context_, x.view()));
      model_.RunLayer(context_, model_.stack(), static_cast<int64_t>(layer),
                      input, x.view());
    }
    const int64_t most = std::max<int64_t>(1, kMostEffectRows / tokens);
    for (size_t layer = 0; layer + 1 < layers_.size(); ++layer) {
      const int64_t heads = layers_[layer]->config().heads;
      for (int64_t first = 0; first < heads; first += most) {
        Without(clean, streams[layer], layer, first,
                std::min(most, heads - first));
      }
    }
  }

 private:
  // Heads first … first + count − 1 of `layer`, each in its own sequence.
  void Without(const TakeInputs& clean, const Tensor& below, size_t layer,
               int64_t first, int64_t count) {
    const int64_t tokens = below.shape(0), width = below.shape(1);
    const AttentionLayer& attention = *layers_[layer];
    const int64_t heads = attention.config().heads;
    const int64_t dim = attention.value_dim();
    Tensor means(DType::kF32, {heads, dim});
    const std::vector<float>& z = clean.Of(attention, ".head_output");
    for (size_t i = 0; i < z.size(); ++i) {
      means.As<float>()[i % (heads * dim)] += z[i] / static_cast<float>(tokens);
    }
    GatedSites gates =
        WithoutHeads(attention, first, count, tokens, std::move(means));
    TakeInputs taken(context_, model_);
    const SequenceBatch batch =
        MakeBatch(std::vector<int64_t>(static_cast<size_t>(count), tokens));
    StackInput input;
    input.batch = &batch;
    input.hooks = {&gates, &taken};
    Tensor x =
        Tensor::Undefined(context_, model_.type(), {count * tokens, width});
    Copy(context_, Broadcast(below.view(), {count, tokens, width}),
         Reshaped(x.view(), {count, tokens, width}));
    for (size_t l = layer; l < layers_.size(); ++l) {
      model_.RunLayer(context_, model_.stack(), static_cast<int64_t>(l), input,
                      x.view());
      if (l == layer) continue;
      for (int64_t s = 0; s < count; ++s) {
        Compare(clean, taken, l, s, first_[layer] + first + s);
      }
    }
  }

  // Sequence s of `taken`, which ran without `sender`, beside the clean run.
  void Compare(const TakeInputs& clean, const TakeInputs& taken, size_t layer,
               int64_t s, int64_t sender) {
    const AttentionLayer& attention = *layers_[layer];
    const AttentionLayerConfig& config = attention.config();
    for (size_t part = 0; part < kParts.size(); ++part) {
      const std::vector<float>& before = clean.Of(attention, kParts[part]);
      const float* after = taken.Of(attention, kParts[part]).data() +
                           s * static_cast<int64_t>(before.size());
      const int64_t groups = part == 0 ? config.heads : config.kv_heads;
      const int64_t dim = part == 2 ? attention.value_dim() : config.head_dim;
      std::vector<double> change(groups), size(groups);
      for (size_t i = 0; i < before.size(); ++i) {
        const auto group =
            static_cast<size_t>(static_cast<int64_t>(i) / dim % groups);
        const double delta = after[i] - before[i];
        change[group] += delta * delta;
        size[group] += static_cast<double>(before[i]) * before[i];
      }
      for (int64_t h = 0; h < config.heads; ++h) {
        const int64_t group = h / (config.heads / groups);
        changes_.change[part](sender, first_[layer] + h) += change[group];
        changes_.size[part](sender, first_[layer] + h) += size[group];
      }
    }
  }

  Context& context_;
  const Model& model_;
  std::vector<const AttentionLayer*> layers_;
  std::vector<int64_t> first_;  // head of each layer in Composition::heads
  int64_t heads_ = 0;
  Changes& changes_;
};

}  // namespace

void MeasureEffects(Context& context, const Model& model,
                    std::span<const TokenWindow> windows,
                    const CompositionJob& job, Composition& composition) {
  if (model.decoder() != nullptr) {
    throw Error(ErrorCode::kUnsupported,
                {"compose", "a model with one stack for path effects",
                 "an encoder–decoder",
                 "leave the text out: the weights alone tell its edges"});
  }
  Changes changes;
  EffectRun run(context, model, changes);
  for (size_t w = 0; w < windows.size(); ++w) {
    ThrowIfStopped(job.stop, "compose");
    run.Add(windows[w]);
    composition.effect_tokens += windows[w].source.size();
    if (job.on_progress) {
      job.on_progress("path effects", static_cast<double>(w + 1),
                      static_cast<double>(windows.size()));
    }
  }
  composition.ablation = "mean";
  for (HeadEdge& edge : composition.edges) {
    const auto part = static_cast<size_t>(edge.input);
    const auto from = static_cast<int64_t>(edge.sender);
    const auto to = static_cast<int64_t>(edge.receiver);
    const double size = changes.size[part](from, to);
    edge.effect =
        size > 0 ? std::sqrt(changes.change[part](from, to) / size) : 0;
  }
}

}  // namespace headwise
