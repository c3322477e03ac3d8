// Passes over a text. Door: corpus_runs.h.
#include "headwise/heads/importance/corpus_runs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "headwise/base/rng.h"
#include "headwise/base/stop.h"
#include "headwise/error.h"
#include "headwise/heads/importance/gradient.h"
#include "headwise/nn/head_weights.h"
#include "headwise/ops/matmul/matmul.h"

namespace headwise {
namespace {

// Rows that run together: full-speed products, and memory in bounds.
constexpr int64_t kMostRows = 4096;

const std::string& SiteOf(const Model& model, const HeadRef& head) {
  return AttentionLayers(model, head.kind)[head.layer]->site().name;
}

// Running means of head outputs and of their absolute values.
class Means {
 public:
  void Add(const HeadOutputs& outputs) {
    for (const auto& [site, values] : outputs) {
      Sums& sums = sums_[site];
      const int64_t width = values.shape(1) * values.shape(2);
      sums.heads = values.shape(1);
      sums.plain.resize(width);
      sums.absolute.resize(width);
      sums.rows += static_cast<double>(values.shape(0));
      for (int64_t t = 0; t < values.shape(0); ++t) {
        const float* row = values.As<float>() + t * width;
        for (int64_t i = 0; i < width; ++i) {
          sums.plain[i] += row[i];
          sums.absolute[i] += std::abs(row[i]);
        }
      }
    }
  }

  void Write(HeadOutputs& plain, HeadOutputs& absolute) const {
    for (const auto& [site, sums] : sums_) {
      const int64_t width = static_cast<int64_t>(sums.plain.size());
      Tensor mean(DType::kF32, {1, sums.heads, width / sums.heads});
      Tensor size(DType::kF32, {1, sums.heads, width / sums.heads});
      for (int64_t i = 0; i < width; ++i) {
        mean.As<float>()[i] = static_cast<float>(sums.plain[i] / sums.rows);
        size.As<float>()[i] = static_cast<float>(sums.absolute[i] / sums.rows);
      }
      plain[site] = std::move(mean);
      absolute[site] = std::move(size);
    }
  }

 private:
  struct Sums {
    int64_t heads = 0;
    double rows = 0;
    std::vector<double> plain, absolute;
  };
  std::map<std::string, Sums> sums_;
};

// Rows of each sequence taken from the sequence `turn` places further on, at
// the same positions (counted round where that one is shorter).
Tensor Turned(const Tensor& values, const SequenceBatch& batch, int64_t turn) {
  const int64_t width = values.shape(1) * values.shape(2);
  Tensor turned(DType::kF32,
                {values.shape(0), values.shape(1), values.shape(2)});
  for (int64_t b = 0; b < batch.sequences(); ++b) {
    const int64_t from = (b + turn) % batch.sequences();
    const int64_t length = batch.starts[from + 1] - batch.starts[from];
    for (int64_t t = batch.starts[b]; t < batch.starts[b + 1]; ++t) {
      const int64_t row = batch.starts[from] + (t - batch.starts[b]) % length;
      std::memcpy(turned.As<float>() + t * width,
                  values.As<float>() + row * width, width * sizeof(float));
    }
  }
  return turned;
}

// Whether what a head writes reaches the final norm by addition alone.
bool HasDirectPath(const Model& model, const HeadRef& head) {
  if (model.config().norm_place != NormPlace::kPre) return false;
  return model.decoder() == nullptr || head.kind != AttentionKind::kSelf;
}

// x [rows, d] −= (z − μ) · W_O of one head; μ may be null.
void RemoveWrite(Context& context, const Model& model, const HeadRef& head,
                 const Tensor& outputs, const Tensor* mean, float* x) {
  const int64_t rows = outputs.shape(0), dim = outputs.shape(2);
  const HeadWeights weights =
      WeightsOfHead(*AttentionLayers(model, head.kind)[head.layer], head.head);
  Tensor less(DType::kF32, {rows, dim});
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t i = 0; i < dim; ++i) {
      const int64_t at = head.head * dim + i;
      const float kept = mean != nullptr ? mean->As<float>()[at] : 0;
      less.As<float>()[t * dim + i] =
          kept - outputs.As<float>()[t * outputs.shape(1) * dim + at];
    }
  }
  MatmulProblem problem;
  problem.m = rows;
  problem.n = weights.o.shape(1);
  problem.k = dim;
  problem.store = Store::kAccumulate;
  MatmulArgs args;
  args.a = std::as_const(less).view();
  args.b = weights.o.view();
  args.c = View(x, {rows, problem.n});
  Matmul(context, problem, args);
}

// Where the batch that starts with example `begin` ends: `most` tokens, but two
// examples at least and none left alone, who would have no other to be
// resampled from.
size_t BatchEnd(std::span<const TextExample> examples, size_t begin,
                int64_t most) {
  size_t end = begin;
  for (int64_t total = 0; end < examples.size(); ++end) {
    total += static_cast<int64_t>(
        std::max(examples[end].ids.size(), examples[end].target.size()));
    if (total > most && end >= begin + 2) break;
  }
  return end + 1 == examples.size() ? end + 1 : end;
}

}  // namespace

CorpusRuns::CorpusRuns(Context& context, const Model& model,
                       std::span<const TextExample> examples,
                       CorpusOptions options)
    : context_(context),
      model_(model),
      options_(std::move(options)),
      objective_(model, options_.objective) {
  if (examples.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"text", "at least two tokens", "none", ""});
  }
  for (size_t begin = 0; begin < examples.size();) {
    const size_t end = BatchEnd(examples, begin, options_.batch_tokens);
    batches_.push_back({objective_.Prepare(examples.subspan(begin, end - begin),
                                           static_cast<int64_t>(begin)),
                        begin});
    begin = end;
  }
  for (const Batch& batch : batches_) {
    tokens_ += static_cast<int64_t>(batch.examples.ids.size() +
                                    batch.examples.decoder_ids.size());
    weights_.insert(weights_.end(), batch.examples.weights.begin(),
                    batch.examples.weights.end());
  }
  RunWhole();
}

void CorpusRuns::RunWhole() {
  Means means;
  for (size_t i = 0; i < batches_.size(); ++i) {
    ThrowIfStopped(options_.stop, "rank");
    ExampleBatch& batch = batches_[i].examples;
    const CleanRun run = RunClean(context_, model_, batch);
    objective_.SetReference(batch, run.final.view());
    const std::vector<double> losses =
        objective_.Losses(context_, batch, run.final.view(), 1);
    base_.insert(base_.end(), losses.begin(), losses.end());
    means.Add(run.outputs);
    Tell("whole model", static_cast<double>(i + 1),
         static_cast<double>(batches_.size()));
  }
  means.Write(mean_, absolute_);
}

std::vector<double> CorpusRuns::ActivationNorms(
    std::span<const HeadRef> heads) const {
  std::vector<double> norms;
  for (const HeadRef& head : heads) {
    const Tensor& mean = absolute_.find(SiteOf(model_, head))->second;
    const int64_t dim = mean.shape(2);
    const float* channels = mean.As<float>() + head.head * dim;
    double sum = 0;
    for (int64_t i = 0; i < dim; ++i) {
      sum += static_cast<double>(channels[i]) * channels[i];
    }
    norms.push_back(std::sqrt(sum));
  }
  return norms;
}

LossTable CorpusRuns::Gradients(std::span<const HeadRef> heads,
                                Criterion criterion) {
  LossTable table(heads.size());
  for (size_t i = 0; i < batches_.size(); ++i) {
    ThrowIfStopped(options_.stop, "rank");
    const auto gradients =
        GateGradients(context_, model_, batches_[i].examples, heads);
    for (size_t h = 0; h < heads.size(); ++h) {
      for (const GateGradient& gradient : gradients[h]) {
        table[h].push_back(
            criterion == Criterion::kGradient        ? std::abs(gradient.sum)
            : criterion == Criterion::kGradientToken ? gradient.absolute
                                                     : gradient.sum);
      }
    }
    Tell(Name(criterion), static_cast<double>(i + 1),
         static_cast<double>(batches_.size()));
  }
  return table;
}

HeadOutputs CorpusRuns::Resampled(size_t index) {
  const ExampleBatch& batch = batches_[index].examples;
  if (batch.size() < 2) {
    throw Error(ErrorCode::kInvalidArgument,
                {"ablation-resample", "at least two sequences of text",
                 std::to_string(batch.size()),
                 "give more text or a smaller --context"});
  }
  Rng rng(options_.seed, index);
  const int64_t turn = 1 + static_cast<int64_t>(rng.Below(batch.size() - 1));
  HeadOutputs resampled;
  const CleanRun run = RunClean(context_, model_, batch);
  for (const auto& [site, values] : run.outputs) {
    const bool decoder = site.starts_with("decoder.");
    resampled[site] = Turned(
        values, decoder ? batch.decoder_sequences : batch.sequences, turn);
  }
  return resampled;
}

LossTable CorpusRuns::Ablate(std::span<const HeadSet> variants,
                             Criterion ablation) {
  LossTable table(variants.size(), std::vector<double>(weights_.size()));
  // The vocabulary counts as one more layer.
  auto cost = [&](const HeadSet& heads) {
    return static_cast<double>(LayersToRun(model_, heads) + 1);
  };
  double total = 0, done = 0;
  for (const HeadSet& heads : variants) total += cost(heads);
  total *= static_cast<double>(batches_.size());
  for (size_t i = 0; i < batches_.size(); ++i) {
    const Batch& batch = batches_[i];
    const int64_t count = batch.examples.size();
    HeadOutputs resampled;
    VariantJob job;
    job.variants = variants;
    job.most_rows = kMostRows;
    job.stop = options_.stop;
    if (ablation == Criterion::kAblationMean) job.replacement = &mean_;
    if (ablation == Criterion::kAblationResample) {
      resampled = Resampled(i);
      job.replacement = &resampled;
    }
    job.done = [&](std::span<const int64_t> indices, ConstTensorView x) {
      const std::vector<double> losses = objective_.Losses(
          context_, batch.examples, x, static_cast<int64_t>(indices.size()));
      for (size_t v = 0; v < indices.size(); ++v) {
        std::copy_n(
            losses.begin() + static_cast<int64_t>(v) * count, count,
            table[indices[v]].begin() + static_cast<int64_t>(batch.first));
      }
      for (const int64_t v : indices) done += cost(variants[v]);
      Tell(Name(ablation), done, total);
    };
    RunVariants(context_, model_, batch.examples, job);
  }
  return table;
}

LossTable CorpusRuns::RemoveDirect(std::span<const HeadRef> heads,
                                   Criterion ablation) {
  LossTable table(heads.size(), base_);
  for (size_t i = 0; i < batches_.size(); ++i) {
    const Batch& batch = batches_[i];
    const CleanRun run = RunClean(context_, model_, batch.examples);
    for (size_t h = 0; h < heads.size(); ++h) {
      if (!HasDirectPath(model_, heads[h])) continue;
      ThrowIfStopped(options_.stop, "rank");
      Tensor x(DType::kF32, {run.stream.shape(0), run.stream.shape(1)});
      std::memcpy(x.As<float>(), run.stream.As<float>(), x.bytes());
      const std::string& site = SiteOf(model_, heads[h]);
      const Tensor* mean = ablation == Criterion::kAblationMean
                               ? &mean_.find(site)->second
                               : nullptr;
      RemoveWrite(context_, model_, heads[h], run.outputs.find(site)->second,
                  mean, x.As<float>());
      model_.Finish(context_, model_.predictor(), nullptr, x.view());
      const std::vector<double> losses = objective_.Losses(
          context_, batch.examples, std::as_const(x).view(), 1);
      std::copy(losses.begin(), losses.end(),
                table[h].begin() + static_cast<int64_t>(batch.first));
      Tell("direct effects", static_cast<double>(i * heads.size() + h + 1),
           static_cast<double>(heads.size() * batches_.size()));
    }
  }
  return table;
}

void CorpusRuns::Tell(const char* stage, double done, double total) const {
  if (options_.progress) options_.progress({stage, done, total, "layers"});
}

}  // namespace headwise
