// Gates over weights that are frozen or learn along. Door: learned_gates.h.
#include "headwise/heads/pruning/learned_gates.h"

#include <algorithm>
#include <string>

#include "headwise/base/fields.h"
#include "headwise/base/json.h"
#include "headwise/base/stop.h"
#include "headwise/error.h"
#include "headwise/format/safetensors.h"
#include "headwise/heads/pruning/example_batches.h"
#include "headwise/heads/pruning/plan.h"
#include "headwise/heads/pruning/tune.h"
#include "headwise/model/family.h"
#include "headwise/model/head_ref.h"
#include "headwise/model/parameters.h"
#include "headwise/nn/head_gates.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"
#include "headwise/train/trainer.h"

namespace headwise {
namespace {

// Gates have a longer way to go than weights that are there already.
constexpr double kGateRate = 0.03;

TrainConfig ConfigFor(const GateOptions& options) {
  const GateLearning& learning = options.learning;
  TrainConfig config;
  config.steps = learning.steps;
  config.batch = options.batch;
  config.micro_batch = 1;
  config.rate = learning.tuned() ? learning.rate : kGateRate;
  config.gate_rate = kGateRate / config.rate;
  config.warmup = learning.steps / 10;
  config.schedule = RateSchedule::kConstant;
  // Without tuning the norm would be that of the frozen weights.
  if (!learning.tuned()) config.clip = 0;
  config.decay = 0;
  config.seed = learning.seed;
  return config;
}

// out = W_O (g · O): the gates join W_O, of whose inputs each head has E.
void JoinGates(Context& context, const AttentionLayer& layer,
               ParameterStore& store) {
  const std::vector<float> log_alpha =
      ToVector<float>(context, layer.weights().gates.weights().log_alpha.value);
  const Linear& output = layer.output();
  const int64_t value = layer.value_dim();
  const bool out_first = output.layout() == WeightLayout::kOutIn;
  const TensorView stored = store.entries().at(output.weight().name).value;
  std::vector<float> weight = ToVector<float>(context, stored);
  for (size_t i = 0; i < weight.size(); ++i) {
    const auto place = static_cast<int64_t>(i);
    const int64_t input =
        out_first ? place % output.in() : place / stored.shape[1];
    weight[i] *= static_cast<float>(ConcreteGate(log_alpha[input / value]));
  }
  Copy(context, Reshaped(ViewOf(weight), {stored.shape[0], stored.shape[1]}),
       stored);
  context.Synchronize();
}

// The weights that learned along, of a model without the run's own gates.
ChangedTensors Ungated(Context& context, const Model& model,
                       ParameterStore& store,
                       const std::filesystem::path& folder) {
  const Safetensors file = Safetensors::Open(folder);
  for (const AttentionKind kind :
       {AttentionKind::kSelf, AttentionKind::kDecoder, AttentionKind::kCross}) {
    for (const AttentionLayer* layer : AttentionLayers(model, kind)) {
      const Parameter& gates = layer->weights().gates.weights().log_alpha;
      if (!gates || file.Stored(gates.name)) continue;
      JoinGates(context, *layer, store);
    }
  }
  return TrainedTensors(context, store, folder);
}

}  // namespace

LearnedGates LearnGates(Context& context, const std::filesystem::path& folder,
                        std::span<const TextExample> examples,
                        const GateOptions& options) {
  const GateLearning& learning = options.learning;
  CheckFields(learning, "gates");
  if (examples.empty()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"gates", "at least one window of text", "none", "give a longer text"});
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
                             ExampleOrder::kShuffled, learning.seed);
  const ExampleBatches plain(*model, examples, options.objective,
                             ExampleOrder::kPlain, learning.seed);
  const std::vector<HeadRef> heads = AllHeads(*model);
  TrainConfig how = ConfigFor(options);
  Trainer trainer(context, how, *model, *store);
  if (!learning.tuned()) {
    for (const auto& [name, entry] : store->entries()) {
      if (entry.gradient && !name.ends_with(".log_alpha")) {
        trainer.optimizer().ScaleRate(name, 0);
      }
    }
  }
  how.gate_penalty = learning.penalty * trainer.Evaluate(plain, kGateWindows) /
                     static_cast<double>(heads.size());
  for (int64_t step = 1; step <= learning.steps; ++step) {
    ThrowIfStopped(options.stop, "gates");
    trainer.Step(train);
    if (options.progress) {
      options.progress("gates", static_cast<double>(step),
                       static_cast<double>(learning.steps));
    }
  }
  LearnedGates learned;
  learned.loss = trainer.Evaluate(plain, kGateWindows);
  for (const HeadRef& head : heads) {
    const AttentionLayer& layer =
        *AttentionLayers(*model, head.kind)[head.layer];
    const Parameter& gate = layer.weights().gates.weights().log_alpha;
    learned.scores.push_back(ToVector<float>(context, gate.value)[head.head]);
    learned.closed += ConcreteGate(learned.scores.back()) == 0 ? 1 : 0;
  }
  if (learning.tuned()) {
    learned.tensors = Ungated(context, *model, *store, folder);
  }
  return learned;
}

}  // namespace headwise
