// Losses under edits and hooks. Door: include/headwise/model.h.
#include <algorithm>
#include <utility>

#include "headwise/api/keep.h"
#include "headwise/api/state.h"
#include "headwise/api/text_input.h"
#include "headwise/error.h"
#include "headwise/heads/importance/loss_table.h"
#include "headwise/heads/importance/statistics.h"
#include "headwise/heads/pruning/evaluate.h"
#include "headwise/runtime/session.h"

namespace headwise {
namespace {

constexpr int64_t kBatchTokens = 1024;
constexpr int64_t kReplicates = 2000;

std::vector<int64_t> LengthsOf(const SequenceBatch& batch) {
  std::vector<int64_t> lengths;
  for (size_t b = 0; b + 1 < batch.starts.size(); ++b) {
    lengths.push_back(batch.starts[b + 1] - batch.starts[b]);
  }
  return lengths;
}

Tensor RunBatch(Context& context, const Model& model, const ExampleBatch& batch,
                RunHooks* hooks) {
  const std::vector<int64_t> lengths = LengthsOf(batch.sequences);
  const std::vector<int64_t> targets = LengthsOf(batch.decoder_sequences);
  ForwardInput input;
  input.ids = batch.ids;
  input.lengths = lengths;
  input.decoder_ids = batch.decoder_ids;
  if (!batch.decoder_ids.empty()) input.decoder_lengths = targets;
  input.hooks = hooks;
  return Forward(context, model, input);
}

}  // namespace

TextLoss Transformer::Loss(const TextInput& text, const LossJob& job) {
  const ModelUse use(*state_);
  if (job.partial.file && edited()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"partial", "none: what edits and hooks do is not known later",
                 job.partial.file->string(), "end them, or keep nothing"});
  }
  const JudgedInput input = JudgedInputOf(*this, text, job.seed);
  const std::span<const TextExample> examples = input.examples;
  Context& context = state_->context;
  const Model& model = state_->model();
  const Objective objective(model, input.objective);
  RunHooks* hooks = state_->interventions->hooks();
  TextLoss result;
  result.kind = objective.kind();
  // Judged by what the model itself gives without edits and hooks.
  const bool own = result.kind == LossKind::kEmbeddingCosine;
  std::vector<ExampleBatch> batches;
  std::vector<double> weights;
  TableWork work;
  work.stage = "loss";
  work.rows = 1;
  work.ends = CutExamples(examples, kBatchTokens);
  size_t begin = 0;
  for (const size_t end : work.ends) {
    const ExampleBatch& batch = batches.emplace_back(objective.Prepare(
        examples.subspan(begin, end - begin), static_cast<int64_t>(begin)));
    weights.insert(weights.end(), batch.weights.begin(), batch.weights.end());
    result.tokens += std::ssize(batch.ids) + std::ssize(batch.decoder_ids);
    begin = end;
  }
  work.run = [&](size_t i, LossTable& columns, const auto&) {
    ExampleBatch& batch = batches[i];
    Tensor x = RunBatch(context, model, batch, own ? nullptr : hooks);
    objective.SetReference(context, batch, x.view());
    if (own && hooks != nullptr) x = RunBatch(context, model, batch, hooks);
    columns[0] = objective.Losses(context, batch, x.view(), 1);
  };
  const LossTable table =
      RunKept(*this, "loss", job, TextKey(examples), "",
              [&](const PassOptions& pass) { return FillTable(pass, work); });
  result.sequences = std::ssize(weights);
  result.loss = PairedBootstrap(std::move(weights), kReplicates, job.seed)
                    .Ratio(table[0]);
  return result;
}

HeadMeans MeanOutputs(Transformer& model, const TextInput& text,
                      const LossJob& job) {
  const ModelUse use(model);
  RequireWhole(model, "means");
  Transformer::State& state = model.state();
  const JudgedInput input = JudgedInputOf(model, text, job.seed);
  return RunKept(model, "means", job, TextKey(input.examples), "",
                 [&](const PassOptions& pass) -> HeadMeans {
                   return std::make_shared<const HeadOutputs>(
                       MeansOver(state.context, state.model(), input.examples,
                                 CorpusOptionsOf(input, job.seed, pass)));
                 });
}

}  // namespace headwise
