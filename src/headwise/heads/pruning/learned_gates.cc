// Gates over frozen weights. Door: learned_gates.h.
#include "headwise/heads/pruning/learned_gates.h"

#include "headwise/base/json.h"
#include "headwise/base/stop.h"
#include "headwise/error.h"
#include "headwise/heads/pruning/example_batches.h"
#include "headwise/heads/pruning/tune.h"
#include "headwise/model/family.h"
#include "headwise/model/head_ref.h"
#include "headwise/model/parameters.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/train/trainer.h"

namespace headwise {
namespace {

TrainConfig ConfigFor(const GateOptions& options) {
  TrainConfig config;
  config.steps = options.steps;
  config.batch = options.batch;
  config.micro_batch = 1;
  config.rate = 1e-3;  // of gates: gate_rate times that
  config.warmup = options.steps / 10;
  config.schedule = RateSchedule::kConstant;
  config.clip = 0;  // the norm would be that of the frozen weights
  config.decay = 0;
  config.seed = options.seed;
  return config;
}

}  // namespace

std::vector<double> LearnGates(Context& context,
                               const std::filesystem::path& folder,
                               std::span<const TextExample> examples,
                               const GateOptions& options) {
  if (examples.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"gates", "at least one window of text", "none", ""});
  }
  Json json = ReadJson(folder / "config.json");
  json["headwise"]["gates"] = "hard_concrete";
  const ModelConfig config =
      ReadConfig(json, (folder / "config.json").string());
  const auto store =
      ParameterStore::Load(folder, {context.device(), options.type});
  store->AllowNew(config, "headwise.");
  const auto model = BuildModel(config, store, options.type);
  RequireTrainable(*model);
  const ExampleBatches train(*model, examples, options.objective,
                             ExampleOrder::kShuffled, options.seed);
  const std::vector<HeadRef> heads = AllHeads(*model);
  TrainConfig how = ConfigFor(options);
  Trainer trainer(context, how, *model, *store);
  for (const auto& [name, entry] : store->entries()) {
    if (entry.gradient && !name.ends_with(".log_alpha")) {
      trainer.optimizer().ScaleRate(name, 0);
    }
  }
  how.gate_penalty =
      options.penalty *
      trainer.Evaluate(train, std::min<int64_t>(8, train.size())) /
      static_cast<double>(heads.size());
  for (int64_t step = 1; step <= options.steps; ++step) {
    ThrowIfStopped(options.stop, "gates");
    trainer.Step(train);
    if (options.progress) {
      options.progress({"gates", static_cast<double>(step),
                        static_cast<double>(options.steps), "steps"});
    }
  }
  std::vector<double> scores;
  for (const HeadRef& head : heads) {
    const AttentionLayer& layer =
        *AttentionLayers(*model, head.kind)[head.layer];
    const Parameter& gate = layer.weights().gates.weights().log_alpha;
    scores.push_back(ToVector<float>(context, gate.value)[head.head]);
  }
  return scores;
}

}  // namespace headwise
