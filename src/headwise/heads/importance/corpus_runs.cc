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
#include "headwise/heads/importance/self_repair.h"

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

LossTable& CorpusRuns::Kept(const std::string& stage, size_t rows) {
  KeptLosses& kept = options_.kept != nullptr ? *options_.kept : own_;
  return kept.Stage(stage, rows, weights_.size());
}

std::vector<size_t> CorpusRuns::Missing(const LossTable& table,
                                        const Batch& batch) {
  std::vector<size_t> missing;
  for (size_t row = 0; row < table.size(); ++row) {
    if (std::isnan(table[row][batch.first])) missing.push_back(row);
  }
  return missing;
}

LossTable CorpusRuns::Gradients(std::span<const HeadRef> heads,
                                Criterion criterion) {
  LossTable& table = Kept(Name(criterion), heads.size());
  for (size_t i = 0; i < batches_.size(); ++i) {
    ThrowIfStopped(options_.stop, "rank");
    if (Missing(table, batches_[i]).empty()) continue;
    const auto gradients =
        GateGradients(context_, model_, batches_[i].examples, heads);
    for (size_t h = 0; h < heads.size(); ++h) {
      for (size_t b = 0; b < gradients[h].size(); ++b) {
        const GateGradient& gradient = gradients[h][b];
        table[h][batches_[i].first + b] =
            criterion == Criterion::kGradient        ? std::abs(gradient.sum)
            : criterion == Criterion::kGradientToken ? gradient.absolute
                                                     : gradient.sum;
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
                 "give more text, or cut it into shorter sequences"});
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
                             Criterion ablation, const std::string& stage) {
  LossTable& table = Kept(stage, variants.size());
  // The vocabulary counts as one more layer.
  auto cost = [&](const HeadSet& heads) {
    return static_cast<double>(LayersToRun(model_, heads) + 1);
  };
  double total = 0, done = 0;
  for (const HeadSet& heads : variants) total += cost(heads);
  const double of_batch = total;
  total *= static_cast<double>(batches_.size());
  for (size_t i = 0; i < batches_.size(); ++i) {
    const Batch& batch = batches_[i];
    const int64_t count = batch.examples.size();
    const std::vector<size_t> missing = Missing(table, batch);
    std::vector<HeadSet> some;
    double left = 0;
    for (const size_t v : missing) {
      some.push_back(variants[v]);
      left += cost(variants[v]);
    }
    done += of_batch - left;
    if (missing.empty()) continue;
    HeadOutputs resampled;
    VariantJob job;
    job.variants = some;
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
        std::copy_n(losses.begin() + static_cast<int64_t>(v) * count, count,
                    table[missing[indices[v]]].begin() +
                        static_cast<int64_t>(batch.first));
      }
      for (const int64_t v : indices) done += cost(some[v]);
      Tell(Name(ablation), done, total);
    };
    RunVariants(context_, model_, batch.examples, job);
  }
  return table;
}

CorpusRuns::Repair CorpusRuns::MeasureRepair(std::span<const HeadRef> heads,
                                             Criterion ablation) {
  const RepairMeter meter(context_, model_, heads);
  if (meter.heads().empty()) return {};
  const std::string stage = std::string("repair ") + Name(ablation);
  LossTable& lost = Kept(stage + " lost", heads.size());
  LossTable& taken = Kept(stage + " taken", heads.size());
  for (size_t i = 0; i < batches_.size(); ++i) {
    const Batch& batch = batches_[i];
    ThrowIfStopped(options_.stop, "rank");
    if (Missing(taken, batch).empty()) continue;
    const HeadOutputs* mean =
        ablation == Criterion::kAblationMean ? &mean_ : nullptr;
    const auto effects =
        meter.Measure(batch.examples, mean, kMostRows, options_.stop);
    for (size_t h = 0; h < heads.size(); ++h) {
      const auto at = static_cast<int64_t>(batch.first);
      std::copy(effects.lost[h].begin(), effects.lost[h].end(),
                lost[h].begin() + at);
      std::copy(effects.taken[h].begin(), effects.taken[h].end(),
                taken[h].begin() + at);
    }
    Tell("direct effects", static_cast<double>(i + 1),
         static_cast<double>(batches_.size()));
  }
  return {lost, taken};
}

void CorpusRuns::Tell(const char* stage, double done, double total) const {
  if (options_.progress) options_.progress({stage, done, total, "layers"});
}

}  // namespace headwise
