// Training what is left. Door: tune.h.
#include "headwise/heads/pruning/tune.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "headwise/base/stop.h"
#include "headwise/error.h"
#include "headwise/format/safetensors.h"
#include "headwise/heads/pruning/example_batches.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model/family.h"
#include "headwise/model/parameters.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/train/trainer.h"

namespace headwise {
namespace {

constexpr int64_t kLooks = 10;

TrainConfig ConfigFor(const TuneOptions& options) {
  TrainConfig config;
  config.steps = options.steps;
  config.batch = options.batch;
  config.micro_batch = 1;
  // The largest divisor that passes together in bounded memory.
  for (int64_t some = 1; some <= std::min<int64_t>(8, options.batch); ++some) {
    if (options.batch % some == 0) config.micro_batch = some;
  }
  config.rate = options.rate;
  config.warmup = options.steps / 10;
  config.decay = 0.01;
  config.seed = options.seed;
  return config;
}

// The values of a store at one step.
class Snapshot {
 public:
  void Take(Context& context, const ParameterStore& store) {
    values_.clear();
    for (const ParameterStore::Buffer& buffer : store.buffers()) {
      values_.push_back(ToHost(context, buffer.value.view()));
    }
  }
  void PutBack(Context& context, ParameterStore& store) const {
    for (size_t i = 0; i < values_.size(); ++i) {
      Copy(context, values_[i].view(), store.buffers()[i].value.view());
    }
    store.Round(context);
  }

 private:
  std::vector<Tensor> values_;
};

}  // namespace

ChangedTensors TrainedTensors(Context& context, const ParameterStore& store,
                              const std::filesystem::path& folder) {
  const Safetensors file = Safetensors::Open(folder);
  ChangedTensors tensors;
  for (const auto& [name, entry] : store.entries()) {
    const ConstTensorView old = file.Stored(name);
    if (!entry.gradient || !old) continue;
    Tensor value(old.type, std::span(old.shape).first(old.rank));
    Copy(context, entry.value, value.view());
    tensors[name] = std::move(value);
  }
  context.Synchronize();
  return tensors;
}

void RequireTrainable(const Model& model) {
  if (LossOf(model) == LossKind::kEmbeddingCosine) {
    throw Error(ErrorCode::kUnsupported,
                {"finetune", "a model that predicts tokens",
                 "one without a vocabulary head",
                 "repair it by fold or least-squares"});
  }
  if (model.config().gates.kind == GateKind::kMixture) {
    throw Error(ErrorCode::kUnsupported,
                {"finetune", "a model whose heads all run",
                 "a mixture of heads", "train it with headwise train"});
  }
}

Tuned Tune(Context& context, const std::filesystem::path& folder,
           std::span<const TextExample> examples, const TuneOptions& options) {
  if (examples.size() < 2) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"finetune",
         "at least two windows: some to train on, some to "
         "tell when to stop",
         std::to_string(examples.size()), "more text, or a smaller --context"});
  }
  const auto store =
      ParameterStore::Load(folder, {context.device(), options.type});
  const auto model = BuildModel(OpenConfig(folder), store, options.type);
  RequireTrainable(*model);
  const size_t last = std::max<size_t>(1, examples.size() / 4);
  const ExampleBatches train(*model, examples.first(examples.size() - last),
                             options.objective, ExampleOrder::kShuffled,
                             options.seed);
  const ExampleBatches held(*model, examples.last(last), options.objective,
                            ExampleOrder::kPlain, options.seed);
  const TrainConfig config = ConfigFor(options);
  Trainer trainer(context, config, *model, *store);
  Tuned tuned;
  tuned.before = tuned.after = trainer.Evaluate(held, held.size());
  Snapshot best;
  best.Take(context, *store);
  const int64_t look = std::max<int64_t>(1, options.steps / kLooks);
  for (int64_t step = 1; step <= options.steps; ++step) {
    ThrowIfStopped(options.stop, "finetune");
    trainer.Step(train);
    if (options.progress) {
      options.progress("finetune", static_cast<double>(step),
                       static_cast<double>(options.steps));
    }
    if (step % look != 0 && step != options.steps) continue;
    const double loss = trainer.Evaluate(held, held.size());
    if (!(loss < tuned.after)) continue;
    tuned.after = loss;
    tuned.kept_step = step;
    best.Take(context, *store);
  }
  best.PutBack(context, *store);
  tuned.tensors = TrainedTensors(context, *store, folder);
  return tuned;
}

}  // namespace headwise
