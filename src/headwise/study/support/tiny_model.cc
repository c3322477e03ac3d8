// Small language models in training. Door: tiny_model.h.
#include "headwise/study/support/tiny_model.h"

#include <algorithm>

#include "headwise/model/family.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/loss/loss.h"

namespace headwise {
namespace {

// Toys need no smaller pieces.
TrainConfig InOnePiece(TrainConfig how) {
  how.micro_batch = how.batch;
  return how;
}

// One sequence of another source.
class OneSequence : public BatchSource {
 public:
  OneSequence(const BatchSource& from, int64_t number)
      : from_(from), number_(number) {}
  TrainBatch Make(int64_t /*first*/, int64_t /*count*/) const override {
    return from_.Make(number_, 1);
  }
  int64_t size() const override { return 1; }

 private:
  const BatchSource& from_;
  int64_t number_;
};

}  // namespace

MadeSequence NextToken(std::span<const int32_t> tokens) {
  MadeSequence sequence;
  sequence.ids.assign(tokens.begin(), tokens.end());
  sequence.targets.assign(tokens.begin() + 1, tokens.end());
  sequence.targets.push_back(kIgnoreTarget);
  return sequence;
}

TrainBatch MadeBatches::Make(int64_t first, int64_t count) const {
  TrainBatch batch;
  std::vector<int64_t> lengths;
  for (int64_t i = first; i < first + count; ++i) {
    Rng rng(seed_, static_cast<uint64_t>(i));
    const MadeSequence one = make_(rng);
    batch.ids.insert(batch.ids.end(), one.ids.begin(), one.ids.end());
    batch.targets.insert(batch.targets.end(), one.targets.begin(),
                         one.targets.end());
    lengths.push_back(static_cast<int64_t>(one.ids.size()));
  }
  batch.batch = MakeBatch(lengths);
  return batch;
}

Json TinyLlama(const TinyShape& shape) {
  return {{"model_type", "llama"},
          {"hidden_size", shape.width},
          {"num_attention_heads", shape.heads},
          {"head_dim",
           shape.head_dim > 0 ? shape.head_dim : shape.width / shape.heads},
          {"num_hidden_layers", shape.layers},
          {"intermediate_size", shape.hidden},
          {"vocab_size", shape.vocabulary},
          {"max_position_embeddings", shape.context},
          {"tie_word_embeddings", shape.tied}};
}

TrainConfig TinyTraining(uint64_t seed, int64_t steps) {
  TrainConfig how;
  how.steps = steps;
  how.batch = 16;
  how.rate = 3e-3;
  how.warmup = 20;
  how.decay = 0.01;
  how.seed = seed;
  return how;
}

std::shared_ptr<ParameterStore> NewParameters(const Context& context,
                                              const ModelConfig& config,
                                              const TrainConfig& how,
                                              DType compute) {
  Initialisation init;
  init.seed = how.seed;
  init.deviation = static_cast<float>(how.init_deviation);
  init.scale_residual = how.init_scale_residual;
  return ParameterStore::Fresh(
      config, init, {.device = context.device(), .compute = compute});
}

TinyModel::TinyModel(Context& context, const Json& config, TrainConfig how,
                     DType compute)
    : how_(InOnePiece(std::move(how))),
      store_(
          NewParameters(context, ReadConfig(config, "study"), how_, compute)),
      model_(BuildModel(ReadConfig(config, "study"), store_, compute)),
      trainer_(context, how_, *model_, *store_) {}

TinyModel::TinyModel(Context& context, std::shared_ptr<ParameterStore> store,
                     std::unique_ptr<Model> model, TrainConfig how)
    : how_(InOnePiece(std::move(how))),
      store_(std::move(store)),
      model_(std::move(model)),
      trainer_(context, how_, *model_, *store_) {}

void TinyModel::Train(const BatchSource& data, StudyClock& clock,
                      const std::function<void(const StepReport&)>& on_step,
                      RunHooks* hooks) {
  while (trainer_.step() < how_.steps) {
    const StepReport report = trainer_.Step(data, hooks);
    if (on_step) on_step(report);
    clock.Tick();
  }
}

std::vector<double> TinyModel::SequenceLosses(const BatchSource& data,
                                              int64_t count) const {
  std::vector<double> losses;
  for (int64_t i = 0; i < count; ++i) {
    losses.push_back(trainer_.Evaluate(OneSequence(data, i), 1));
  }
  return losses;
}

HostModel::HostModel(Context& context, const TinyModel& tiny)
    : host_(context), model_(&tiny.model()) {
  if (context.device().is_cpu()) return;
  const ModelConfig& config = tiny.model().config();
  store_ = ParameterStore::Fresh(config, {});
  own_ = BuildModel(config, store_);
  model_ = own_.get();
  for (auto& [name, entry] : store_->entries()) {
    const Tensor value = ToHost(context, tiny.store().entries().at(name).value);
    std::copy_n(value.As<float>(), value.size(), entry.value.As<float>());
  }
}

}  // namespace headwise
