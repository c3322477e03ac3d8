// Door: step_bench.h.
#include "bench/step_bench.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "bench/measure.h"
#include "bench/random_batches.h"
#include "bench/random_model.h"
#include "headwise/error.h"
#include "headwise/model/family.h"
#include "headwise/model/parameters.h"
#include "headwise/nn/hooks.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/train/trainer.h"

namespace headwise::bench {
namespace {

constexpr int kWarmUp = 5;

// An open gate for every head, and the place of its gradient.
class GateGradients : public RunHooks {
 public:
  explicit GateGradients(Context& context) : context_(context) {}

  bool WantsSome() const override { return false; }
  void BeforeAttention(const AttentionSite&, const AttentionProblem&,
                       AttentionArgs& args) override {
    if (open_.size() == 0) {
      open_ = Tensor(context_, DType::kF32, RowsAndHeads(args));
      Fill(context_, 1, open_.view());
    }
    args.gates = std::as_const(open_).view();
  }
  void BeforeAttentionBackward(const AttentionSite& site,
                               const AttentionProblem&,
                               const AttentionArgs& args,
                               AttentionGrads& grads) override {
    Tensor& gradient = gradients_[site.layer];
    if (gradient.size() == 0) {
      gradient = Tensor(context_, DType::kF32, RowsAndHeads(args));
    }
    grads.dgates = gradient.view();
  }

 private:
  static Shape RowsAndHeads(const AttentionArgs& args) {
    return {args.q.shape[0], args.q.shape[1], args.q.shape[2]};
  }

  Context& context_;
  Tensor open_;
  std::map<int64_t, Tensor> gradients_;
};

ModelConfig ShapeFor(const StepBenchOptions& options) {
  ModelConfig shape = NamedShape(options.shape);
  if (!shape.causal || shape.encoder_decoder()) {
    throw Error(ErrorCode::kUnsupported,
                {"bench train", "a causal language model", shape.model_type,
                 "such as llama or gpt2"});
  }
  shape.context = std::max(shape.context, options.length);
  return shape;
}

}  // namespace

StepBenchResult BenchStep(const ContextOptions& where,
                          const StepBenchOptions& options) {
  Context context(where);
  const ModelConfig shape = ShapeFor(options);
  const auto store = ParameterStore::Fresh(
      shape, {}, {.device = context.device(), .compute = options.type});
  const auto model = BuildModel(shape, store, options.type);
  TrainConfig config;
  config.batch = config.micro_batch = options.sequences;
  config.sequence = options.length;
  Trainer trainer(context, config, *model, *store);
  const RandomBatches source(shape.vocabulary, options.length);
  GateGradients gates(context);
  RunHooks* const hooks = options.gates ? &gates : nullptr;

  StepBenchResult result = {.model = options.shape,
                            .device = ToString(context.device()),
                            .type = Name(options.type),
                            .parameters = store->Count(),
                            .sequences = options.sequences,
                            .length = options.length,
                            .gates = options.gates};
  const auto step = [&] {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    trainer.Step(source, hooks);
    context.Synchronize();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  for (int i = 0; i < kWarmUp; ++i) step();
  const Repeated timed = Repeat(options.seconds, 1, step);
  result.steps = timed.runs;
  result.seconds = timed.seconds;
  result.spread = timed.spread;
  return result;
}

std::string Table(const StepBenchResult& r) {
  return fmt::format(
      "train: {}, {} parameters, {} × {} tokens a step{}, {} on {}\n"
      "  {:.1f} ms a step, the median of {}, {:.1f} % spread; {:.0f} "
      "tokens/s\n",
      r.model, r.parameters, r.sequences, r.length,
      r.gates ? ", gradients of gates" : "", r.type, r.device, 1e3 * r.seconds,
      r.steps, 100 * r.spread, r.tokens_per_second());
}

Json ToJson(const StepBenchResult& r) {
  return {{"op", "train"},
          {"impl", "headwise"},
          {"model", r.model},
          {"device", r.device},
          {"type", r.type},
          {"parameters", r.parameters},
          {"batch", r.sequences},
          {"length", r.length},
          {"gates", r.gates},
          {"steps", r.steps},
          {"ms", 1e3 * r.seconds},
          {"spread", r.spread},
          {"tokens_per_second", r.tokens_per_second()}};
}

}  // namespace headwise::bench
