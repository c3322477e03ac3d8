// Passes over a text. Door: corpus_runs.h.
#include "headwise/heads/importance/corpus_runs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "headwise/base/rng.h"
#include "headwise/base/stop.h"
#include "headwise/dist/pack.h"
#include "headwise/error.h"
#include "headwise/heads/importance/gradient.h"
#include "headwise/heads/importance/self_repair.h"
#include "headwise/model/room.h"
#include "headwise/ops/check_view.h"
#include "headwise/ops/copy/copy.h"

namespace headwise {
namespace {

// As many copies of a group run together as a layer may have heads.
constexpr int64_t kCopies = 16;

const std::string& SiteOf(const Model& model, const HeadRef& head) {
  return AttentionLayers(model, head.kind)[head.layer]->site().name;
}

// Rows of the sequences [begin, end) from those of the sequence `turn` places
// further on among them, at the same positions (counted round where that one is
// shorter).
void AddTurned(const SequenceBatch& batch, int64_t begin, int64_t end,
               int64_t turn, std::vector<int32_t>& rows) {
  for (int64_t b = begin; b < end; ++b) {
    const int64_t from = begin + (b - begin + turn) % (end - begin);
    const int32_t length = batch.starts[from + 1] - batch.starts[from];
    for (int32_t t = batch.starts[b]; t < batch.starts[b + 1]; ++t) {
      rows.push_back(batch.starts[from] + (t - batch.starts[b]) % length);
    }
  }
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
      objective_(model, options_.objective),
      shared_(options_.group) {
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
  RequireRoomToBegin();
  RunWhole();
}

// For the largest group of batches that runs together.
void CorpusRuns::RequireRoomToBegin() const {
  int64_t largest = 0;
  for (const Group& group : Groups()) {
    int64_t rows = 0;
    for (size_t i = group.first; i < group.first + group.count; ++i) {
      rows += batches_[i].examples.rows();
    }
    largest = std::max(largest, rows);
  }
  RequireRoom(context_, ForwardNeeds(context_, model_, largest));
}

std::vector<CorpusRuns::Group> CorpusRuns::Groups() const {
  const int64_t most =
      context_.device().is_cpu() ? 0 : RowsTogether(context_, model_) / kCopies;
  std::vector<Group> groups;
  int64_t rows = 0;
  for (size_t i = 0; i < batches_.size(); ++i) {
    const int64_t more = batches_[i].examples.rows();
    if (groups.empty() || rows + more > most) {
      groups.push_back({i, 0});
      rows = 0;
    }
    ++groups.back().count;
    rows += more;
  }
  return groups;
}

const ExampleBatch& CorpusRuns::ExamplesOf(const Group& group,
                                           ExampleBatch& joined) const {
  if (group.count == 1) return batches_[group.first].examples;
  std::vector<const ExampleBatch*> some;
  for (size_t i = group.first; i < group.first + group.count; ++i) {
    some.push_back(&batches_[i].examples);
  }
  joined = Joined(some);
  return joined;
}

std::string CorpusRuns::RunWhole(const Group& group) {
  ExampleBatch joined;
  const ExampleBatch& examples = ExamplesOf(group, joined);
  const CleanRun run = RunClean(context_, model_, examples);
  std::vector<double> base;
  int64_t row = 0;
  for (size_t i = group.first; i < group.first + group.count; ++i) {
    ExampleBatch& batch = batches_[i].examples;
    const int64_t rows = batch.predicting().total();
    const ConstTensorView x = Rows(run.final.view(), row, row + rows);
    objective_.SetReference(context_, batch, x);
    const std::vector<double> losses = objective_.Losses(context_, batch, x, 1);
    base.insert(base.end(), losses.begin(), losses.end());
    row += rows;
  }
  dist::Packer to;
  to.Put(base);
  to.Put(SiteMeans(context_, run.outputs).Pack());
  return to.Take();
}

void CorpusRuns::RunWhole() {
  SiteMeans means;
  const std::vector<Group> groups = Groups();
  // In rounds of one group a rank: little is exchanged at a time, and added in
  // the order of the text.
  for (size_t begin = 0; begin < groups.size(); begin += shared_.ranks()) {
    ThrowIfStopped(options_.stop, "rank");
    const size_t end = std::min(groups.size(), begin + shared_.ranks());
    std::string own;
    for (size_t g = begin; g < end; ++g) {
      if (shared_.Owns(g)) own = RunWhole(groups[g]);
    }
    const std::vector<std::string> all = shared_.Exchange(std::move(own));
    for (size_t g = begin; g < end; ++g) {
      dist::Unpacker from(all[g - begin]);
      const std::vector<double> losses = from.GetVector<double>();
      base_.insert(base_.end(), losses.begin(), losses.end());
      means.Add(SiteMeans::Unpack(from.GetString()));
    }
    Tell("whole model",
         static_cast<double>(groups[end - 1].first + groups[end - 1].count),
         static_cast<double>(batches_.size()));
  }
  means.Write(mean_, absolute_);
}

void CorpusRuns::Fill(const std::vector<LossTable*>& tables,
                      const GroupCall& run, const GroupCall& known,
                      const GroupCall& arrived) {
  const std::vector<Group> groups = Groups();
  std::vector<size_t> missing;
  for (size_t g = 0; g < groups.size(); ++g) {
    if (Missing(*tables.back(), groups[g]).empty()) {
      known(groups[g]);
    } else {
      missing.push_back(g);
    }
  }
  const auto tell = [&](const std::vector<size_t>& parts) {
    for (const size_t g : parts) arrived(groups[g]);
  };
  shared_.Begin(tables, missing);
  for (const size_t g : missing) {
    if (!shared_.Owns(g)) continue;
    ThrowIfStopped(options_.stop, "rank");
    run(groups[g]);
    const size_t next = groups[g].first + groups[g].count;
    const size_t first = batches_[groups[g].first].first;
    const size_t end =
        next < batches_.size() ? batches_[next].first : weights_.size();
    shared_.Give(g, first, end - first);
    tell(shared_.Collect(0));
  }
  shared_.Finish([&](const std::vector<size_t>& parts) {
    ThrowIfStopped(options_.stop, "rank");
    tell(parts);
  });
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
                                        const Group& group) const {
  std::vector<size_t> missing;
  for (size_t row = 0; row < table.size(); ++row) {
    bool known = true;
    for (size_t i = group.first; i < group.first + group.count; ++i) {
      known = known && !std::isnan(table[row][batches_[i].first]);
    }
    if (!known) missing.push_back(row);
  }
  return missing;
}

LossTable CorpusRuns::Gradients(std::span<const HeadRef> heads,
                                Criterion criterion) {
  LossTable& table = Kept(Name(criterion), heads.size());
  const auto run = [&](size_t i) {
    if (Missing(table, {i, 1}).empty()) return;
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
  };
  FillByBatch({&table}, run, Name(criterion));
  return table;
}

void CorpusRuns::FillByBatch(const std::vector<LossTable*>& tables,
                             const std::function<void(size_t)>& run,
                             const char* stage) {
  double done = 0;
  const auto tell = [&](size_t batches) {
    done += static_cast<double>(batches);
    Tell(stage, done, static_cast<double>(batches_.size()));
  };
  Fill(
      tables,
      [&](const Group& group) {
        for (size_t i = group.first; i < group.first + group.count; ++i) {
          ThrowIfStopped(options_.stop, "rank");
          run(i);
          tell(1);
        }
      },
      [&](const Group& group) { done += static_cast<double>(group.count); },
      [&](const Group& group) { tell(group.count); });
}

HeadOutputs CorpusRuns::Resampled(const Group& group,
                                  const ExampleBatch& examples) {
  std::vector<int32_t> rows, decoder_rows;
  int64_t begin = 0;
  for (size_t i = group.first; i < group.first + group.count; ++i) {
    const int64_t count = batches_[i].examples.size();
    if (count < 2) {
      throw Error(ErrorCode::kInvalidArgument,
                  {"ablation-resample", "at least two sequences of text",
                   std::to_string(count),
                   "give more text, or cut it into shorter sequences"});
    }
    Rng rng(options_.seed, i);
    const int64_t turn = 1 + static_cast<int64_t>(rng.Below(count - 1));
    AddTurned(examples.sequences, begin, begin + count, turn, rows);
    if (!examples.decoder_ids.empty()) {
      AddTurned(examples.decoder_sequences, begin, begin + count, turn,
                decoder_rows);
    }
    begin += count;
  }
  Temp memory[2];
  const ConstTensorView places[] = {
      OnDevice(context_, ViewOf(std::as_const(rows)), memory[0]),
      OnDevice(context_, ViewOf(std::as_const(decoder_rows)), memory[1])};
  HeadOutputs resampled;
  const CleanRun run = RunClean(context_, model_, examples);
  for (const auto& [site, values] : run.outputs) {
    Tensor& turned = resampled[site];
    turned = Tensor::Undefined(context_, values.type(), ShapeOf(values.view()));
    GatherRows(context_, values.view(),
               places[site.starts_with("decoder.") ? 1 : 0], turned.view());
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
  const auto run = [&](const Group& group) {
    const std::vector<size_t> missing = Missing(table, group);
    const double batches = static_cast<double>(group.count);
    std::vector<HeadSet> some;
    double left = 0;
    for (const size_t v : missing) {
      some.push_back(variants[v]);
      left += cost(variants[v]);
    }
    done += (of_batch - left) * batches;
    ExampleBatch joined;
    const ExampleBatch& examples = ExamplesOf(group, joined);
    const int64_t count = examples.size();
    const auto first = static_cast<int64_t>(batches_[group.first].first);
    HeadOutputs resampled;
    VariantJob job;
    job.variants = some;
    job.stop = options_.stop;
    if (ablation == Criterion::kAblationMean) job.replacement = &mean_;
    if (ablation == Criterion::kAblationResample) {
      resampled = Resampled(group, examples);
      job.replacement = &resampled;
    }
    job.done = [&](std::span<const int64_t> indices, ConstTensorView x) {
      const std::vector<double> losses = objective_.Losses(
          context_, examples, x, static_cast<int64_t>(indices.size()));
      for (size_t v = 0; v < indices.size(); ++v) {
        std::copy_n(losses.begin() + static_cast<int64_t>(v) * count, count,
                    table[missing[indices[v]]].begin() + first);
      }
      for (const int64_t v : indices) done += cost(some[v]) * batches;
      Tell(Name(ablation), done, total);
    };
    RunVariants(context_, model_, examples, job);
  };
  const auto known = [&](const Group& group) {
    done += of_batch * static_cast<double>(group.count);
  };
  Fill({&table}, run, known, [&](const Group& group) {
    known(group);
    Tell(Name(ablation), done, total);
  });
  return table;
}

CorpusRuns::Repair CorpusRuns::MeasureRepair(std::span<const HeadRef> heads,
                                             Criterion ablation) {
  const RepairMeter meter(context_, model_, heads);
  if (meter.heads().empty()) return {};
  const std::string stage = std::string("repair ") + Name(ablation);
  LossTable& lost = Kept(stage + " lost", heads.size());
  LossTable& taken = Kept(stage + " taken", heads.size());
  const auto run = [&](size_t i) {
    const Batch& batch = batches_[i];
    if (Missing(taken, {i, 1}).empty()) return;
    const HeadOutputs* mean =
        ablation == Criterion::kAblationMean ? &mean_ : nullptr;
    const auto effects = meter.Measure(batch.examples, mean, options_.stop);
    for (size_t h = 0; h < heads.size(); ++h) {
      const auto at = static_cast<int64_t>(batch.first);
      std::copy(effects.lost[h].begin(), effects.lost[h].end(),
                lost[h].begin() + at);
      std::copy(effects.taken[h].begin(), effects.taken[h].end(),
                taken[h].begin() + at);
    }
  };
  FillByBatch({&lost, &taken}, run, "direct effects");
  return {lost, taken};
}

void CorpusRuns::Tell(const char* stage, double done, double total) const {
  if (options_.progress) options_.progress({stage, done, total, "layers"});
}

}  // namespace headwise
