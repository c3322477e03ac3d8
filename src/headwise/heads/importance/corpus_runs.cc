// Passes over a text. Door: corpus_runs.h.
#include "headwise/heads/importance/corpus_runs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "headwise/base/rng.h"
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

// What a batch is judged by, where its model is judged by its own output.
void PutReference(const ExampleBatch& batch, dist::Packer& to) {
  std::vector<float> values(batch.reference.size());
  if (!values.empty()) {
    std::copy_n(batch.reference.As<float>(), values.size(), values.begin());
  }
  to.Put(values);
}

void GetReference(dist::Unpacker& from, ExampleBatch& batch) {
  const std::vector<float> values = from.GetVector<float>();
  if (values.empty()) return;
  batch.reference =
      Tensor(DType::kF32, {batch.size(), std::ssize(values) / batch.size()});
  std::ranges::copy(values, batch.reference.As<float>());
}

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
      objective_(model, options_.objective) {
  if (examples.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"text", "at least two tokens", "none", "give a longer text"});
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
  groups_ = Groups();
  RequireRoomToBegin();
  RunWhole();
}

// For the largest group of batches that runs together.
void CorpusRuns::RequireRoomToBegin() const {
  int64_t largest = 0;
  for (const Group& group : groups_) {
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
  for (size_t i = group.first; i < group.first + group.count; ++i) {
    PutReference(batches_[i].examples, to);
  }
  return to.Take();
}

void CorpusRuns::RunWhole() {
  SiteMeans means;
  size_t added = 0;  // groups
  const auto batches = [&] {
    return added > 0 ? groups_[added - 1].first + groups_[added - 1].count : 0;
  };
  PassWork work;
  work.stage = "whole model";
  for (size_t g = 0; g < groups_.size(); ++g) {
    work.sizes.push_back(static_cast<double>(EndOf(g) - FirstOf(g)));
  }
  work.sum_on = SumOn::kAll;
  work.add = [&](std::string_view message) {
    dist::Unpacker from(message);
    const std::vector<double> losses = from.GetVector<double>();
    base_.insert(base_.end(), losses.begin(), losses.end());
    means.Add(SiteMeans::Unpack(from.GetString()));
    const size_t first = batches();
    ++added;
    for (size_t i = first; i < batches(); ++i) {
      GetReference(from, batches_[i].examples);
    }
  };
  work.pack = [&] {
    dist::Packer to;
    to.Put(added);
    to.Put(base_);
    to.Put(means.Pack());
    for (size_t i = 0; i < batches(); ++i) {
      PutReference(batches_[i].examples, to);
    }
    return to.Take();
  };
  work.unpack = [&](std::string_view sum) {
    dist::Unpacker from(sum);
    added = from.Get<size_t>();
    base_ = from.GetVector<double>();
    means = SiteMeans::Unpack(from.GetString());
    for (size_t i = 0; i < batches(); ++i) {
      GetReference(from, batches_[i].examples);
    }
  };
  TextPass(options_.pass, std::move(work)).Run([&](size_t g, std::string_view) {
    return RunWhole(groups_[g]);
  });
  means.Write(mean_, absolute_);
}

size_t CorpusRuns::FirstOf(size_t group) const {
  return batches_[groups_[group].first].first;
}

size_t CorpusRuns::EndOf(size_t group) const {
  return group + 1 < groups_.size() ? FirstOf(group + 1) : weights_.size();
}

TableWork CorpusRuns::TableByGroups(const char* stage, size_t rows) const {
  TableWork work;
  work.stage = stage;
  work.rows = rows;
  for (size_t g = 0; g < groups_.size(); ++g) work.ends.push_back(EndOf(g));
  return work;
}

LossTable CorpusRuns::FillByBatch(const std::string& stage, size_t rows,
                                  const RunBatch& run) {
  TableWork work = TableByGroups(stage.c_str(), rows);
  work.run = [&](size_t g, LossTable& columns, const auto& tell) {
    const Group& group = groups_[g];
    for (size_t i = 0; i < group.count; ++i) {
      const Batch& batch = batches_[group.first + i];
      const size_t first = batch.first - FirstOf(g);
      if (!std::isnan(columns.back()[first])) continue;
      run(batch.examples, columns, first);
      tell(static_cast<double>(i + 1) / static_cast<double>(group.count));
    }
  };
  return FillTable(options_.pass, work);
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
  const auto value = [&](const GateGradient& gradient) {
    return criterion == Criterion::kGradient        ? std::abs(gradient.sum)
           : criterion == Criterion::kGradientToken ? gradient.absolute
                                                    : gradient.sum;
  };
  return FillByBatch(
      Name(criterion), heads.size(),
      [&](const ExampleBatch& examples, LossTable& columns, size_t first) {
        const auto gradients = GateGradients(context_, model_, examples, heads);
        for (size_t h = 0; h < heads.size(); ++h) {
          std::ranges::transform(
              gradients[h],
              columns[h].begin() + static_cast<std::ptrdiff_t>(first), value);
        }
      });
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
                             Criterion ablation, const std::string& name) {
  // The vocabulary counts as one more layer.
  const auto cost = [&](const HeadSet& heads) {
    return static_cast<double>(LayersToRun(model_, heads) + 1);
  };
  double all = 0;
  for (const HeadSet& heads : variants) all += cost(heads);
  TableWork work = TableByGroups(Name(ablation), variants.size());
  work.name = name;
  work.run = [&](size_t g, LossTable& columns, const auto& tell) {
    const std::vector<size_t> missing = MissingRows(columns);
    std::vector<HeadSet> some;
    double left = 0;
    for (const size_t v : missing) {
      some.push_back(variants[v]);
      left += cost(variants[v]);
    }
    ExampleBatch joined;
    const ExampleBatch& examples = ExamplesOf(groups_[g], joined);
    const int64_t count = examples.size();
    HeadOutputs resampled;
    VariantJob job;
    job.variants = some;
    job.stop = options_.pass.stop;
    if (ablation == Criterion::kAblationMean) job.replacement = &mean_;
    if (ablation == Criterion::kAblationResample) {
      resampled = Resampled(groups_[g], examples);
      job.replacement = &resampled;
    }
    job.done = [&](std::span<const int64_t> indices, ConstTensorView x) {
      const std::vector<double> losses = objective_.Losses(
          context_, examples, x, static_cast<int64_t>(indices.size()));
      for (size_t v = 0; v < indices.size(); ++v) {
        std::copy_n(losses.begin() + static_cast<int64_t>(v) * count, count,
                    columns[missing[indices[v]]].begin());
        left -= cost(some[indices[v]]);
      }
      tell(1 - left / all);
    };
    RunVariants(context_, model_, examples, job);
  };
  return FillTable(options_.pass, work);
}

CorpusRuns::Repair CorpusRuns::MeasureRepair(std::span<const HeadRef> heads,
                                             Criterion ablation) {
  const RepairMeter meter(context_, model_, heads);
  if (meter.heads().empty()) return {};
  const HeadOutputs* mean =
      ablation == Criterion::kAblationMean ? &mean_ : nullptr;
  LossTable table = FillByBatch(
      std::string("direct effects, ") + Name(ablation), 2 * heads.size(),
      [&](const ExampleBatch& examples, LossTable& columns, size_t first) {
        const DirectEffects effects =
            meter.Measure(examples, mean, options_.pass.stop);
        const auto at = static_cast<std::ptrdiff_t>(first);
        for (size_t h = 0; h < heads.size(); ++h) {
          std::ranges::copy(effects.lost[h], columns[h].begin() + at);
          std::ranges::copy(effects.taken[h],
                            columns[heads.size() + h].begin() + at);
        }
      });
  const auto middle = table.begin() + std::ssize(heads);
  return {LossTable(table.begin(), middle), LossTable(middle, table.end())};
}

}  // namespace headwise
