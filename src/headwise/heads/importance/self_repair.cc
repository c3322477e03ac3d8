// Direct effects of many heads under many ways of closing one: directions go
// back through W_O once a batch, so that an effect is a product of head_dim
// numbers. Door: self_repair.h.
#include "headwise/heads/importance/self_repair.h"

#include <string>
#include <utility>

#include "headwise/ops/copy/copy.h"
#include "headwise/ops/loss/loss.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/tensor/slice.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

bool HasDirectEffect(const Model& model, const HeadRef& head) {
  if (!HasLogitDirections(model)) return false;
  return model.decoder() == nullptr || head.kind != AttentionKind::kSelf;
}

const AttentionLayer& LayerOf(const Model& model, const HeadRef& head) {
  return *AttentionLayers(model, head.kind)[head.layer];
}

}  // namespace

// One batch: what each site's heads are read by, and their effects when no
// head is closed.
class RepairMeter::Batch {
 public:
  Batch(const RepairMeter& meter, const ExampleBatch& examples)
      : context_(meter.context_), examples_(examples) {
    const CleanRun run = RunClean(meter.context_, meter.model_, examples);
    std::vector<LogitDirection> directions;
    for (const int32_t target : examples.targets) {
      directions.push_back(target == kIgnoreTarget
                               ? LogitDirection{}
                               : meter.above_mean_[0].Of(target));
    }
    const Tensor host = StreamDirections(meter.context_, meter.model_,
                                         run.stream.view(), directions);
    Temp memory;
    const ConstTensorView seen = OnDevice(context_, host.view(), memory);
    for (const size_t h : meter.direct_) {
      const AttentionLayer& layer = LayerOf(meter.model_, meter.heads_[h]);
      const auto [site, is_new] = sites_.try_emplace(layer.site().name);
      if (!is_new) continue;
      const Tensor& outputs = run.outputs.find(site->first)->second;
      site->second.read =
          Tensor(context_, DType::kF32,
                 {seen.shape[0], outputs.shape(1) * outputs.shape(2)});
      layer.output().BackwardInput(context_, seen, site->second.read.view());
      site->second.clean = EffectsOf(site->second, outputs.view(), 0);
    }
  }

  // Direct effects of the heads of one site in one stacked copy, [heads][B].
  LossTable EffectsOf(std::string_view name, ConstTensorView outputs,
                      int64_t copy) const {
    return EffectsOf(sites_.find(name)->second, outputs, copy);
  }
  bool Knows(std::string_view name) const { return sites_.contains(name); }
  const LossTable& Clean(std::string_view name) const {
    return sites_.find(name)->second.clean;
  }

 private:
  struct Site {
    Tensor read;      // f32 [rows, heads · E]
    LossTable clean;  // [heads][B]
  };

  // Products of channels, added up sequence by sequence.
  LossTable SumsOnDevice(const Site& site, ConstTensorView outputs,
                         int64_t copy) const {
    const SequenceBatch& batch = examples_.predicting();
    const int64_t heads = outputs.shape[1], dim = outputs.shape[2];
    const int64_t rows = batch.total(), count = batch.sequences();
    const Shape shape = {rows, heads, dim};
    const Temp memory(context_, DType::kF32, shape);
    const TensorView products = memory.view();
    Copy(context_, Rows(outputs, copy * rows, (copy + 1) * rows), products);
    Multiply(context_, products, Reshaped(site.read.view(), shape), products);
    const Temp sums(context_, DType::kF32, {count, heads});
    Fill(context_, 0, sums.view());
    for (int64_t b = 0; b < count; ++b) {
      AddColumnSums(
          context_,
          Transposed(Rows(products, batch.starts[b], batch.starts[b + 1]), 1,
                     2),
          At(sums.view(), 0, b));
    }
    const auto values = ToVector<double>(context_, sums.view());
    LossTable effects(heads, std::vector<double>(count));
    for (int64_t i = 0; i < count * heads; ++i) {
      effects[i % heads][i / heads] = values[i];
    }
    return effects;
  }

  LossTable EffectsOf(const Site& site, ConstTensorView outputs,
                      int64_t copy) const {
    if (!outputs.device.is_cpu()) return SumsOnDevice(site, outputs, copy);
    const SequenceBatch& batch = examples_.predicting();
    const int64_t heads = outputs.shape[1], dim = outputs.shape[2];
    LossTable effects(heads, std::vector<double>(batch.sequences()));
    for (int64_t b = 0; b < batch.sequences(); ++b) {
      for (int64_t t = batch.starts[b]; t < batch.starts[b + 1]; ++t) {
        const float* z = outputs.As<float>() +
                         (copy * batch.total() + t) * outputs.stride[0];
        const float* read = site.read.As<float>() + t * heads * dim;
        for (int64_t h = 0; h < heads; ++h) {
          double sum = 0;
          for (int64_t i = 0; i < dim; ++i) {
            sum += static_cast<double>(z[h * dim + i]) * read[h * dim + i];
          }
          effects[h][b] += sum;
        }
      }
    }
    return effects;
  }

  Context& context_;
  const ExampleBatch& examples_;
  std::map<std::string, Site, std::less<>> sites_;
};

RepairMeter::RepairMeter(Context& context, const Model& model,
                         std::span<const HeadRef> heads)
    : context_(context), model_(model), heads_(heads.begin(), heads.end()) {
  for (size_t h = 0; h < heads_.size(); ++h) {
    if (HasDirectEffect(model, heads_[h])) direct_.push_back(h);
  }
  if (!direct_.empty()) above_mean_.emplace_back(context, model);
}

DirectEffects RepairMeter::Measure(const ExampleBatch& examples,
                                   const HeadOutputs* replacement,
                                   const std::stop_token& stop) const {
  const Batch batch(*this, examples);
  const auto count = static_cast<size_t>(examples.size());
  DirectEffects effects;
  effects.lost.assign(heads_.size(), std::vector<double>(count));
  effects.taken = effects.lost;
  std::vector<HeadSet> variants;
  for (const size_t h : direct_) variants.push_back({heads_[h]});
  std::vector<bool> closed(heads_.size(), false);  // its site has run
  VariantJob job;
  job.variants = variants;
  job.replacement = replacement;
  job.stop = stop;
  job.done = [](std::span<const int64_t>, ConstTensorView) {};
  job.outputs = [&](std::span<const int64_t> indices, std::string_view site,
                    ConstTensorView outputs) {
    if (!batch.Knows(site)) return;
    const LossTable& clean = batch.Clean(site);
    for (size_t copy = 0; copy < indices.size(); ++copy) {
      const size_t h = direct_[indices[copy]];
      const bool own = site == LayerOf(model_, heads_[h]).site().name;
      if (!own && !closed[h]) continue;
      closed[h] = true;
      const LossTable now =
          batch.EffectsOf(site, outputs, static_cast<int64_t>(copy));
      for (size_t b = 0; b < count; ++b) {
        if (own) {
          effects.lost[h][b] =
              clean[heads_[h].head][b] - now[heads_[h].head][b];
          continue;
        }
        for (size_t k = 0; k < now.size(); ++k) {
          effects.taken[h][b] += now[k][b] - clean[k][b];
        }
      }
    }
  };
  RunVariants(context_, model_, examples, job);
  return effects;
}

}  // namespace headwise
