// Losses beside the whole model's. Door: evaluate.h.
#include "headwise/heads/pruning/evaluate.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "headwise/base/stop.h"
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
  const bool counts = count == CountRight::kYes &&
                      objective_.kind() != LossKind::kEmbeddingCosine;
  if (examples.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"text", "at least two tokens", "none", ""});
  }
  for (size_t begin = 0; begin < examples.size();) {
    ThrowIfStopped(options_.stop, "evaluate");
    size_t end = begin;
    for (int64_t total = 0; end < examples.size() &&
                            (end == begin || total < options_.batch_tokens);
         ++end) {
      total += std::ssize(examples[end].ids) + std::ssize(examples[end].target);
    }
    Batch batch = {objective_.Prepare(examples.subspan(begin, end - begin),
                                      static_cast<int64_t>(begin)),
                   begin};
    if (begin == 0) {
      RequireRoom(context_,
                  ForwardNeeds(context_, whole_, batch.examples.rows()));
    }
    const CleanRun run = RunClean(context_, whole_, batch.examples);
    objective_.SetReference(context_, batch.examples, run.final.view());
    const std::vector<double> losses =
        objective_.Losses(context_, batch.examples, run.final.view(), 1);
    base_.insert(base_.end(), losses.begin(), losses.end());
    if (counts) {
      const std::vector<double> right = RightOf(batch, run.final.view(), 1);
      right_.insert(right_.end(), right.begin(), right.end());
    }
    weights_.insert(weights_.end(), batch.examples.weights.begin(),
                    batch.examples.weights.end());
    tokens_ +=
        std::ssize(batch.examples.ids) + std::ssize(batch.examples.decoder_ids);
    batches_.push_back(std::move(batch));
    begin = end;
    if (options_.progress) {
      options_.progress({"whole model", static_cast<double>(end),
                         static_cast<double>(examples.size()), "sequences"});
    }
  }
}

double JudgedText::loss() const { return Mean(base_); }

double JudgedText::Mean(const std::vector<double>& losses) const {
  return Sum(losses) / Sum(weights_);
}

Evaluation JudgedText::Of(const Model& smaller,
                          AgreementSums* agreement) const {
  const Objective objective(smaller, options_.objective);
  const bool agrees =
      agreement != nullptr && objective_.kind() != LossKind::kEmbeddingCosine;
  std::vector<double> losses;
  for (const Batch& batch : batches_) {
    ThrowIfStopped(options_.stop, "evaluate");
    const CleanRun run = RunClean(context_, smaller, batch.examples);
    const std::vector<double> some =
        objective.Losses(context_, batch.examples, run.final.view(), 1);
    losses.insert(losses.end(), some.begin(), some.end());
    if (agreement != nullptr && options_.progress) {
      options_.progress(
          {"judge", static_cast<double>(batch.first + batch.examples.size()),
           static_cast<double>(weights_.size()), "sequences"});
    }
    if (!agrees) continue;
    const CleanRun own = RunClean(context_, whole_, batch.examples);
    AddAgreement(context_, batch.examples, {whole_, own.final.view()},
                 {smaller, run.final.view()}, *agreement);
  }
  return Compared(losses);
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
  LossTable table(variants.size(), std::vector<double>(weights_.size()));
  if (right != nullptr) *right = table;
  for (size_t i = 0; i < batches_.size(); ++i) {
    const Batch& batch = batches_[i];
    const int64_t count = batch.examples.size();
    const auto put = [&](const std::vector<double>& from,
                         std::span<const int64_t> indices, LossTable& to) {
      for (size_t v = 0; v < indices.size(); ++v) {
        std::copy_n(from.begin() + static_cast<int64_t>(v) * count, count,
                    to[indices[v]].begin() + static_cast<int64_t>(batch.first));
      }
    };
    VariantJob job;
    job.variants = variants;
    job.replacement = means;
    job.stop = options_.stop;
    job.done = [&](std::span<const int64_t> indices, ConstTensorView x) {
      const auto copies = static_cast<int64_t>(indices.size());
      put(objective_.Losses(context_, batch.examples, x, copies), indices,
          table);
      if (right != nullptr) put(RightOf(batch, x, copies), indices, *right);
    };
    RunVariants(context_, whole_, batch.examples, job);
    if (options_.progress) {
      options_.progress({"heads closed", static_cast<double>(i + 1),
                         static_cast<double>(batches_.size()), "batches"});
    }
  }
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
