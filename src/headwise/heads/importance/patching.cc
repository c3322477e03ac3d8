// Attribution and patching. Door: patching.h.
#include "headwise/heads/importance/patching.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

#include "headwise/error.h"
#include "headwise/heads/importance/host_values.h"
#include "headwise/heads/importance/logit_direction.h"
#include "headwise/heads/importance/loss_table.h"
#include "headwise/heads/importance/statistics.h"
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
  const bool predicts = config.causal && !config.encoder_decoder();
  const std::string why = WhyNoLogitDirections(model);
  if (predicts && why.empty()) return;
  throw Error(ErrorCode::kUnsupported,
              {"patch", "a causal model whose layers add to one stream",
               config.model_type + (why.empty() ? "" : ", " + why),
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

// Rows of the table of a patch, one value a case in each.
struct PatchRows {
  PatchRows(const Model& model, bool patched)
      : heads(AllHeads(model).size()), layers(model.stack().blocks.size()) {
    all = patches + (patched ? heads : 0);
  }

  size_t heads, layers;
  // Differences of logits, after the prompt and after the counterfactual.
  size_t clean = 0, counterfactual = 1, embedding = 2, constant = 3;
  // Direct parts: one a head, one a layer, one a layer.
  size_t direct = 4, mlps = direct + heads, biases = mlps + layers;
  size_t patches = biases + layers;  // what is lost: one a head
  size_t all = 0;
};

// Cases one batch at a time, each the columns of a table.
class Patcher {
 public:
  Patcher(Context& context, const Model& model,
          std::span<const PatchCase> cases, const PatchNeeds& needs)
      : context_(context),
        model_(model),
        cases_(cases),
        needs_(needs),
        patched_(!cases[0].counterfactual.empty()),
        rows_(model, patched_) {
    for (const HeadRef& head : AllHeads(model)) heads_.push_back({head});
  }

  LossTable Run() {
    TableWork work;
    work.stage = "patch";
    work.rows = rows_.all;
    work.ends = CutByRoom(cases_.size(), needs_.batch_tokens, [&](size_t i) {
      return std::ssize(cases_[i].prompt);
    });
    work.run = [&](size_t part, LossTable& columns, const auto& tell) {
      const size_t first = part > 0 ? work.ends[part - 1] : 0;
      const auto cases = cases_.subspan(first, work.ends[part] - first);
      // Layers, and heads to patch: one prompt may be long and take minutes.
      double done = 0;
      const Step step = [&](int64_t count) {
        done += static_cast<double>(count);
        tell(done / StepsInAll());
      };
      Attribute(cases, columns, step);
      if (patched_) PatchHeads(cases, columns, step);
    };
    return FillTable(needs_.pass, work);
  }

  PatchResult Result(const LossTable& table, uint64_t seed) const {
    const double count = static_cast<double>(cases_.size());
    const PairedBootstrap bootstrap(std::vector<double>(cases_.size(), 1.0),
                                    needs_.replicates, seed);
    const auto mean = [&](size_t row) {
      return std::accumulate(table[row].begin(), table[row].end(), 0.0) / count;
    };
    PatchResult result;
    result.cases = std::ssize(cases_);
    result.heads = AllHeads(model_);
    const std::vector<double>& clean = table[rows_.clean];
    result.difference = bootstrap.Ratio(clean);
    result.preferred =
        static_cast<double>(std::count_if(clean.begin(), clean.end(),
                                          [](double d) { return d > 0; })) /
        count;
    for (size_t h = 0; h < rows_.heads; ++h) {
      result.direct.heads.push_back(mean(rows_.direct + h));
    }
    for (size_t layer = 0; layer < rows_.layers; ++layer) {
      result.direct.mlps.push_back(mean(rows_.mlps + layer));
      result.direct.biases.push_back(mean(rows_.biases + layer));
    }
    result.direct.embedding = mean(rows_.embedding);
    result.direct.constant = mean(rows_.constant);
    if (!patched_) return result;
    result.counterfactual = bootstrap.Ratio(table[rows_.counterfactual]);
    const double whole = result.difference.value - result.counterfactual.value;
    for (size_t h = 0; h < rows_.heads; ++h) {
      result.patched.push_back(bootstrap.Ratio(table[rows_.patches + h]));
      result.share.push_back(result.patched.back().value / whole);
    }
    return result;
  }

 private:
  using Step = std::function<void(int64_t)>;

  double StepsInAll() const {
    const size_t steps =
        patched_ ? 3 * rows_.layers + rows_.heads : 2 * rows_.layers;
    return static_cast<double>(steps);
  }

  void Attribute(std::span<const PatchCase> cases, LossTable& columns,
                 const Step& step) {
    const std::vector<LogitParts> all =
        AttributeLogits(context_, model_, cases, [&] { step(1); });
    for (size_t i = 0; i < all.size(); ++i) {
      const LogitParts& parts = all[i];
      const auto put = [&](size_t first, const std::vector<double>& values) {
        for (size_t j = 0; j < values.size(); ++j) {
          columns[first + j][i] = values[j];
        }
      };
      // The parts add up to the difference itself (tested).
      put(rows_.clean, {parts.Sum(), 0, parts.embedding, parts.constant});
      put(rows_.direct, parts.heads);
      put(rows_.mlps, parts.mlps);
      put(rows_.biases, parts.biases);
    }
  }

  void PatchHeads(std::span<const PatchCase> cases, LossTable& columns,
                  const Step& step) {
    std::vector<LogitDirection> directions;
    for (const PatchCase& one : cases) {
      directions.push_back(
          DirectionBetween(context_, model_, one.answer, one.other));
    }
    const ExampleBatch batch = BatchOf(model_, cases, false);
    const CleanRun other = RunClean(
        context_, model_, BatchOf(model_, cases, true), [&] { step(1); });
    columns[rows_.counterfactual] =
        Differences(context_, batch, other.final.view(), 0, directions);
    VariantJob job;
    job.variants = heads_;
    job.replacement = &other.outputs;
    job.stop = needs_.pass.stop;
    job.done = [&](std::span<const int64_t> indices, ConstTensorView x) {
      step(std::ssize(indices));
      for (size_t v = 0; v < indices.size(); ++v) {
        std::vector<double>& lost = columns[rows_.patches + indices[v]];
        lost = Differences(context_, batch, x, static_cast<int64_t>(v),
                           directions);
        for (size_t b = 0; b < lost.size(); ++b) {
          lost[b] = columns[rows_.clean][b] - lost[b];
        }
      }
    };
    RunVariants(context_, model_, batch, job);
  }

  Context& context_;
  const Model& model_;
  std::span<const PatchCase> cases_;
  const PatchNeeds& needs_;
  bool patched_;
  PatchRows rows_;
  std::vector<HeadSet> heads_;
};

}  // namespace

PatchResult Patch(Context& context, const Model& model,
                  std::span<const PatchCase> cases, const PatchJob& job,
                  const PatchNeeds& needs) {
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
  Patcher patcher(context, model, cases, needs);
  const LossTable table = patcher.Run();
  return patcher.Result(table, job.seed);
}

}  // namespace headwise
