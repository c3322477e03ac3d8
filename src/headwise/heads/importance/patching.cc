// Attribution and patching. Door: patching.h.
#include "headwise/heads/importance/patching.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

#include "headwise/base/stop.h"
#include "headwise/error.h"
#include "headwise/heads/importance/host_values.h"
#include "headwise/heads/importance/logit_direction.h"
#include "headwise/heads/importance/variants.h"
#include "headwise/model/room.h"
#include "headwise/nn/head_weights.h"
#include "headwise/ops/matmul/matmul.h"

namespace headwise {
namespace {

double Dot(const float* a, const float* b, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    sum += static_cast<double>(a[i]) * b[i];
  }
  return sum;
}

void RequirePredictor(const Model& model) {
  const ModelConfig& config = model.config();
  const bool fits =
      config.causal && !config.encoder_decoder() && HasLogitDirections(model);
  if (fits) return;
  throw Error(ErrorCode::kUnsupported,
              {"patch", "a causal model whose layers add to one stream",
               config.model_type,
               "post-norm encoders and encoder–decoders have no direct path "
               "from a head to the logits"});
}

ExampleBatch BatchOf(const Model& model, std::span<const PatchCase> cases,
                     bool counterfactual) {
  std::vector<TextExample> examples;
  for (const PatchCase& one : cases) {
    examples.push_back(
        {counterfactual ? one.counterfactual : one.prompt, {}, {}});
  }
  return Objective(model).Prepare(examples, 0);
}

// The last row of each sequence of x [rows, …] → [B, …], f32 on the host.
Tensor LastRows(Context& context, const ExampleBatch& batch, ConstTensorView x,
                int64_t first) {
  std::vector<int32_t> rows;
  for (int64_t b = 0; b < batch.size(); ++b) {
    rows.push_back(
        static_cast<int32_t>(first + batch.sequences.starts[b + 1] - 1));
  }
  ConstTensorView like = x;
  like.shape[0] = batch.size();
  const Shape shape = ShapeOf(like);
  Temp memory;
  const Temp chosen(context, x.type, shape);
  GatherRows(context, x, OnDevice(context, ViewOf(std::as_const(rows)), memory),
             chosen.view());
  Tensor last(DType::kF32, shape);
  Copy(context, chosen.view(), last.view());
  context.Synchronize();
  return last;
}

// Differences of one stacked copy, [B].
std::vector<double> Differences(Context& context, const ExampleBatch& batch,
                                ConstTensorView x, int64_t copy,
                                std::span<const LogitDirection> directions) {
  const Tensor last =
      LastRows(context, batch, x, copy * batch.sequences.total());
  const int64_t width = last.shape(1);
  std::vector<double> differences;
  for (int64_t b = 0; b < batch.size(); ++b) {
    const LogitDirection& direction = directions[b];
    differences.push_back(
        Dot(last.As<float>() + b * width, direction.direction.data(), width) +
        direction.constant);
  }
  return differences;
}

// What the feed-forward halves add, at the last rows.
class MlpTaker : public RunHooks {
 public:
  MlpTaker(Context& context, const ExampleBatch& batch,
           const std::function<void()>& taken)
      : context_(context), batch_(batch), taken_(taken) {}
  bool Wants(std::string_view name) const override {
    return name.ends_with(".mlp.output");
  }
  void Take(std::string_view, ConstTensorView value) override {
    outputs.push_back(LastRows(context_, batch_, value, 0));
    if (taken_) taken_();
  }
  std::vector<Tensor> outputs;  // one a layer, [B, d]

 private:
  Context& context_;
  const ExampleBatch& batch_;
  const std::function<void()>& taken_;
};

// z·(W_O · direction) of every head: directions go back through W_O once, so
// no head's [d] vector is made. outputs [B, H, E] of the last rows and seen
// [B, d], on the host.
void AddHeads(Context& context, const AttentionLayer& layer,
              const Tensor& outputs, const Tensor& seen,
              std::vector<LogitParts>& parts) {
  const int64_t count = seen.shape(0);
  const int64_t heads = outputs.shape(1), dim = outputs.shape(2);
  for (int64_t h = 0; h < heads; ++h) {
    const HeadWeights weights = WeightsOfHead(context, layer, h);
    Tensor read(DType::kF32, {count, dim});
    MatmulProblem problem;
    problem.m = count;
    problem.n = dim;
    problem.k = seen.shape(1);
    problem.b = Operand::kTransposed;
    MatmulArgs args;
    args.a = seen.view();
    args.b = weights.o.view();
    args.c = read.view();
    Matmul(context, problem, args);
    for (int64_t b = 0; b < count; ++b) {
      parts[b].heads.push_back(Dot(outputs.As<float>() + (b * heads + h) * dim,
                                   read.As<float>() + b * dim, dim));
    }
  }
  const Parameter& bias = layer.output().bias();
  const Tensor values = bias ? ToF32(context, bias) : Tensor();
  for (int64_t b = 0; b < count; ++b) {
    const float* row = seen.As<float>() + b * seen.shape(1);
    parts[b].biases.push_back(bias ? Dot(values.As<float>(), row, values.size())
                                   : 0);
  }
}

}  // namespace

double LogitParts::Sum() const {
  auto sum = [](const std::vector<double>& values) {
    return std::accumulate(values.begin(), values.end(), 0.0);
  };
  return sum(heads) + sum(mlps) + sum(biases) + embedding + constant;
}

std::vector<LogitParts> AttributeLogits(
    Context& context, const Model& model, std::span<const PatchCase> cases,
    const std::function<void()>& after_layer) {
  RequirePredictor(model);
  const ExampleBatch batch = BatchOf(model, cases, false);
  std::vector<LogitDirection> directions;
  for (const PatchCase& one : cases) {
    directions.push_back(
        DirectionBetween(context, model, one.answer, one.other));
  }
  const CleanRun run = RunClean(context, model, batch, after_layer);
  const Tensor last = LastRows(context, batch, run.stream.view(), 0);
  const int64_t width = last.shape(1);
  const Tensor seen = StreamDirections(context, model, last.view(), directions);
  std::vector<LogitParts> parts(cases.size());
  for (const Block& block : model.stack().blocks) {
    const AttentionLayer& layer = block.attention();
    const auto found = run.outputs.find(layer.site().name);
    AddHeads(context, layer,
             found == run.outputs.end()
                 ? Tensor()
                 : LastRows(context, batch, found->second.view(), 0),
             seen, parts);
  }
  MlpTaker mlps(context, batch, after_layer);
  StackInput input;
  input.ids = batch.ids;
  input.batch = &batch.sequences;
  input.hooks = &mlps;
  const Temp x(context, model.type(), {batch.sequences.total(), width});
  model.Run(context, model.stack(), input, x.view());
  const Tensor embedded = LastRows(context, batch, run.embedding.view(), 0);
  // What the final norm makes of nothing is its bias.
  const Temp made(context, DType::kF32, {1, width});
  Fill(context, 0, made.view());
  model.stack().final_norm.Forward(context, made.view(), made.view());
  const auto bias = ToVector<float>(context, made.view());
  for (size_t b = 0; b < cases.size(); ++b) {
    const float* row = seen.As<float>() + static_cast<int64_t>(b) * width;
    for (const Tensor& mlp : mlps.outputs) {
      parts[b].mlps.push_back(
          Dot(mlp.As<float>() + static_cast<int64_t>(b) * width, row, width));
    }
    parts[b].embedding =
        Dot(embedded.As<float>() + static_cast<int64_t>(b) * width, row, width);
    parts[b].constant =
        Dot(bias.data(), directions[b].direction.data(), width) +
        directions[b].constant;
  }
  return parts;
}

namespace {

void AddTo(std::vector<double>& sums, const std::vector<double>& values) {
  sums.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) sums[i] += values[i];
}

// How far a batch of cases has come: one prompt may be long and take minutes.
class Steps {
 public:
  // Of `all` cases `before` are done, and the next `count` take `steps`.
  Steps(const PatchOptions& options, size_t before, size_t count, size_t all,
        int64_t steps)
      : options_(options),
        before_(static_cast<double>(before)),
        each_(static_cast<double>(count) / static_cast<double>(steps)),
        all_(static_cast<double>(all)) {
    Tell(0);
  }

  void Tell(int64_t count) {
    ThrowIfStopped(options_.stop, "patch");
    done_ += static_cast<double>(count);
    if (!options_.progress) return;
    options_.progress({"patch", before_ + done_ * each_, all_, "prompts"});
  }

 private:
  const PatchOptions& options_;
  double before_, each_, all_;
  double done_ = 0;
};

// Adds up cases in batches.
class Patcher {
 public:
  Patcher(Context& context, const Model& model, const PatchOptions& options)
      : context_(context), model_(model), options_(options) {
    for (const HeadRef& head : AllHeads(model)) heads_.push_back({head});
    losses_.resize(heads_.size());
  }

  // `all`: cases of the whole work, of which these are the next.
  void Add(std::span<const PatchCase> cases, size_t all) {
    Steps steps(options_, clean_.size(), cases.size(), all,
                StepsOf(!cases[0].counterfactual.empty()));
    const std::function<void()> after_layer = [&] { steps.Tell(1); };
    for (const LogitParts& parts :
         AttributeLogits(context_, model_, cases, after_layer)) {
      AddTo(direct_.heads, parts.heads);
      AddTo(direct_.mlps, parts.mlps);
      AddTo(direct_.biases, parts.biases);
      direct_.embedding += parts.embedding;
      direct_.constant += parts.constant;
      // The parts add up to the difference itself (tested).
      clean_.push_back(parts.Sum());
    }
    if (cases[0].counterfactual.empty()) return;
    std::vector<LogitDirection> directions;
    for (const PatchCase& one : cases) {
      directions.push_back(
          DirectionBetween(context_, model_, one.answer, one.other));
    }
    const ExampleBatch batch = BatchOf(model_, cases, false);
    const CleanRun other =
        RunClean(context_, model_, BatchOf(model_, cases, true), after_layer);
    const std::vector<double> without =
        Differences(context_, batch, other.final.view(), 0, directions);
    counterfactual_.insert(counterfactual_.end(), without.begin(),
                           without.end());
    const size_t first = clean_.size() - cases.size();
    VariantJob job;
    job.variants = heads_;
    job.replacement = &other.outputs;
    job.stop = options_.stop;
    job.done = [&](std::span<const int64_t> indices, ConstTensorView x) {
      steps.Tell(std::ssize(indices));
      for (size_t v = 0; v < indices.size(); ++v) {
        const std::vector<double> patched = Differences(
            context_, batch, x, static_cast<int64_t>(v), directions);
        for (size_t b = 0; b < patched.size(); ++b) {
          losses_[indices[v]].push_back(clean_[first + b] - patched[b]);
        }
      }
    };
    RunVariants(context_, model_, batch, job);
  }

  PatchResult Result() const {
    const double count = static_cast<double>(clean_.size());
    const PairedBootstrap bootstrap(std::vector<double>(clean_.size(), 1.0),
                                    options_.replicates, options_.seed);
    PatchResult result;
    result.cases = static_cast<int64_t>(clean_.size());
    result.heads = AllHeads(model_);
    result.difference = bootstrap.Ratio(clean_);
    result.preferred =
        static_cast<double>(std::count_if(clean_.begin(), clean_.end(),
                                          [](double d) { return d > 0; })) /
        count;
    result.direct = direct_;
    for (auto* values :
         {&result.direct.heads, &result.direct.mlps, &result.direct.biases}) {
      for (double& value : *values) value /= count;
    }
    result.direct.embedding /= count;
    result.direct.constant /= count;
    if (counterfactual_.empty()) return result;
    result.counterfactual = bootstrap.Ratio(counterfactual_);
    const double whole = result.difference.value - result.counterfactual.value;
    for (const std::vector<double>& lost : losses_) {
      result.patched.push_back(bootstrap.Ratio(lost));
      result.share.push_back(result.patched.back().value / whole);
    }
    return result;
  }

 private:
  // Layers, and heads to patch, each of which runs some.
  int64_t StepsOf(bool patched) const {
    const auto layers = std::ssize(model_.stack().blocks);
    return patched ? 3 * layers + std::ssize(heads_) : 2 * layers;
  }

  Context& context_;
  const Model& model_;
  const PatchOptions& options_;
  std::vector<HeadSet> heads_;
  LogitParts direct_;          // sums over cases
  std::vector<double> clean_;  // differences, one a case
  std::vector<double> counterfactual_;
  std::vector<std::vector<double>> losses_;  // [heads][cases]
};

}  // namespace

PatchResult Patch(Context& context, const Model& model,
                  std::span<const PatchCase> cases,
                  const PatchOptions& options) {
  RequirePredictor(model);
  if (cases.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"patch", "at least one prompt", "none", ""});
  }
  for (const PatchCase& one : cases) {
    if (one.counterfactual.size() == one.prompt.size()) continue;
    if (one.counterfactual.empty() && cases[0].counterfactual.empty()) continue;
    throw Error(ErrorCode::kInvalidArgument,
                {"patch", "a counterfactual of as many tokens as the prompt",
                 std::to_string(one.counterfactual.size()) + " against " +
                     std::to_string(one.prompt.size()),
                 "heads are patched position by position"});
  }
  int64_t longest = 0;
  for (const PatchCase& one : cases) {
    longest = std::max(longest, std::ssize(one.prompt));
  }
  RequireRoom(context, ForwardNeeds(context, model, longest));
  Patcher patcher(context, model, options);
  for (size_t begin = 0; begin < cases.size();) {
    size_t end = begin;
    int64_t tokens = 0;
    while (end < cases.size() &&
           (end == begin || tokens < options.batch_tokens)) {
      tokens += static_cast<int64_t>(cases[end++].prompt.size());
    }
    patcher.Add(cases.subspan(begin, end - begin), cases.size());
    if (options.progress) {
      options.progress({"patch", static_cast<double>(end),
                        static_cast<double>(cases.size()), "prompts"});
    }
    begin = end;
  }
  return patcher.Result();
}

}  // namespace headwise
