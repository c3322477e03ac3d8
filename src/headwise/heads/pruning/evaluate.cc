// Losses beside the whole model's. Door: evaluate.h.
#include "headwise/heads/pruning/evaluate.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "headwise/error.h"
#include "headwise/heads/importance/host_values.h"
#include "headwise/model/room.h"
#include "headwise/ops/loss/loss.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

constexpr int64_t kReplicates = 2000;

double Sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// Rows of [first, last) that have a target and name it, of logits by blocks.
double RightAmong(Context& context, const Model& model, ConstTensorView x,
                  std::span<const int32_t> targets, int64_t first,
                  int64_t last) {
  constexpr int64_t kRows = 256;
  double right = 0;
  const int64_t vocabulary = model.config().vocabulary;
  for (int64_t begin = first; begin < last; begin += kRows) {
    const int64_t end = std::min(begin + kRows, last);
    const Temp made(context, LogitType(model), {end - begin, vocabulary});
    model.Logits(context, Slice(x, 0, begin, end), made.view());
    Tensor copy;
    const ConstTensorView logits = HostF32(context, made.view(), copy);
    for (int64_t row = begin; row < end; ++row) {
      if (targets[row] == kIgnoreTarget) continue;
      const float* of = logits.As<float>() + (row - begin) * vocabulary;
      right += std::max_element(of, of + vocabulary) - of == targets[row];
    }
  }
  return right;
}

}  // namespace

HeadOutputs MeansOver(Context& context, const Model& model,
                      std::span<const TextExample> examples,
                      const CorpusOptions& options) {
  const CorpusRuns runs(context, model, examples, options);
  HeadOutputs means;
  for (const auto& [site, mean] : runs.means()) {
    Tensor copy(DType::kF32, {mean.shape(0), mean.shape(1), mean.shape(2)});
    std::copy_n(mean.As<float>(), mean.size(), copy.As<float>());
    means[site] = std::move(copy);
  }
  return means;
}

JudgedText::JudgedText(Context& context, const Model& whole,
                       std::span<const TextExample> examples,
                       CorpusOptions options, CountRight count)
    : context_(context),
      whole_(whole),
      options_(std::move(options)),
      objective_(whole, options_.objective) {
  if (examples.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"text", "at least two tokens", "none", "give a longer text"});
  }
  int64_t largest = 0;
  size_t begin = 0;
  for (const size_t end : CutExamples(examples, options_.batch_tokens)) {
    batches_.push_back({objective_.Prepare(examples.subspan(begin, end - begin),
                                           static_cast<int64_t>(begin)),
                        begin});
    const ExampleBatch& batch = batches_.back().examples;
    weights_.insert(weights_.end(), batch.weights.begin(), batch.weights.end());
    tokens_ += std::ssize(batch.ids) + std::ssize(batch.decoder_ids);
    largest = std::max(largest, batch.rows());
    begin = end;
  }
  RequireRoom(context_, ForwardNeeds(context_, whole_, largest));
  RunWhole(count == CountRight::kYes && predicts());
}

// Rows of the table: losses; what is right; the channels of what the model is
// judged by, where that is its own output.
void JudgedText::RunWhole(bool counts) {
  const size_t width = predicts() ? 0 : whole_.config().width;
  TableWork work = TableByBatch("whole model", 1 + (counts ? 1 : 0) + width);
  work.run = [&](size_t i, LossTable& columns, const auto&) {
    Batch& batch = batches_[i];
    const CleanRun run = RunClean(context_, whole_, batch.examples);
    objective_.SetReference(context_, batch.examples, run.final.view());
    columns[0] =
        objective_.Losses(context_, batch.examples, run.final.view(), 1);
    if (counts) columns[1] = RightOf(batch, run.final.view(), 1);
    for (int64_t at = 0; at < batch.examples.reference.size(); ++at) {
      columns[1 + at % width][at / width] =
          batch.examples.reference.As<float>()[at];
    }
  };
  LossTable table = FillTable(options_.pass, work);
  base_ = std::move(table[0]);
  if (counts) right_ = std::move(table[1]);
  if (width == 0) return;
  for (Batch& batch : batches_) {
    Tensor& reference = batch.examples.reference;
    reference =
        Tensor(DType::kF32, {batch.examples.size(), std::ssize(table) - 1});
    for (int64_t at = 0; at < reference.size(); ++at) {
      reference.As<float>()[at] =
          static_cast<float>(table[1 + at % width][batch.first + at / width]);
    }
  }
}

TableWork JudgedText::TableByBatch(const char* stage, size_t rows) const {
  TableWork work;
  work.stage = stage;
  work.rows = rows;
  for (const Batch& batch : batches_) {
    work.ends.push_back(batch.first + batch.examples.size());
  }
  return work;
}

double JudgedText::loss() const { return Mean(base_); }

double JudgedText::Mean(const std::vector<double>& losses) const {
  return Sum(losses) / Sum(weights_);
}

Evaluation JudgedText::Of(const Model& smaller,
                          AgreementSums* agreement) const {
  const Objective objective(smaller, options_.objective);
  const bool agrees = agreement != nullptr && predicts();
  TableWork work = TableByBatch("judge", agrees ? 3 : 1);
  work.run = [&](size_t i, LossTable& columns, const auto&) {
    const ExampleBatch& batch = batches_[i].examples;
    const CleanRun run = RunClean(context_, smaller, batch);
    columns[0] = objective.Losses(context_, batch, run.final.view(), 1);
    if (!agrees) return;
    const CleanRun own = RunClean(context_, whole_, batch);
    AgreementSums sums;
    AddAgreement(context_, batch, {whole_, own.final.view()},
                 {smaller, run.final.view()}, sums);
    columns[1] = std::move(sums.divergence);
    columns[2] = std::move(sums.same_token);
  };
  LossTable table = FillTable(options_.pass, work);
  if (agrees) *agreement = {std::move(table[1]), std::move(table[2])};
  return Compared(table[0]);
}

std::vector<double> JudgedText::RightOf(const Batch& batch, ConstTensorView x,
                                        int64_t copies) const {
  std::vector<double> right;
  const std::vector<int32_t>& starts = batch.examples.predicting().starts;
  const int64_t rows = x.shape[0] / copies;
  for (int64_t copy = 0; copy < copies; ++copy) {
    const ConstTensorView own = Slice(x, 0, copy * rows, (copy + 1) * rows);
    for (size_t b = 0; b + 1 < starts.size(); ++b) {
      right.push_back(RightAmong(context_, whole_, own, batch.examples.targets,
                                 starts[b], starts[b + 1]));
    }
  }
  return right;
}

LossTable JudgedText::Closed(std::span<const HeadSet> variants,
                             const HeadOutputs* means, LossTable* right) const {
  const size_t count = variants.size();
  TableWork work =
      TableByBatch("heads closed", count * (right != nullptr ? 2 : 1));
  work.run = [&](size_t i, LossTable& columns, const auto& tell) {
    const Batch& batch = batches_[i];
    std::vector<size_t> missing = MissingRows(columns);
    std::erase_if(missing, [&](size_t row) { return row >= count; });
    std::vector<HeadSet> some;
    for (const size_t v : missing) some.push_back(variants[v]);
    auto done = static_cast<double>(count - some.size());
    VariantJob job;
    job.variants = some;
    job.replacement = means;
    job.stop = options_.pass.stop;
    job.done = [&](std::span<const int64_t> indices, ConstTensorView x) {
      const auto copies = static_cast<int64_t>(indices.size());
      const auto put = [&](const std::vector<double>& from, size_t first) {
        const int64_t size = batch.examples.size();
        for (int64_t v = 0; v < copies; ++v) {
          std::copy_n(from.begin() + v * size, size,
                      columns[first + missing[indices[v]]].begin());
        }
      };
      if (right != nullptr) put(RightOf(batch, x, copies), count);
      put(objective_.Losses(context_, batch.examples, x, copies), 0);
      done += static_cast<double>(copies);
      tell(done / static_cast<double>(count));
    };
    RunVariants(context_, whole_, batch.examples, job);
  };
  LossTable table = FillTable(options_.pass, work);
  const auto middle = table.begin() + static_cast<std::ptrdiff_t>(count);
  if (right != nullptr) right->assign(middle, table.end());
  table.resize(count);
  return table;
}

PairedBootstrap JudgedText::bootstrap() const {
  return {weights_, kReplicates, options_.seed};
}

Evaluation JudgedText::Compared(const std::vector<double>& losses) const {
  Evaluation result;
  result.loss_kind = objective_.kind();
  result.sequences = std::ssize(weights_);
  result.tokens = tokens_;
  const PairedBootstrap resampled = bootstrap();
  std::vector<double> change(losses.size());
  for (size_t i = 0; i < losses.size(); ++i) change[i] = losses[i] - base_[i];
  result.loss = resampled.Ratio(base_);
  result.closed = resampled.Ratio(losses);
  result.change = resampled.Ratio(change);
  return result;
}

}  // namespace headwise
