// A text in batches, and the loss of every sequence of it under every way of
// closing heads. What ranking.h computes its statistics from.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "headwise/base/progress.h"
#include "headwise/context.h"
#include "headwise/dist/group.h"
#include "headwise/heads/importance/criterion.h"
#include "headwise/heads/importance/kept_losses.h"
#include "headwise/heads/importance/objective.h"
#include "headwise/heads/importance/shared_losses.h"
#include "headwise/heads/importance/site_means.h"
#include "headwise/heads/importance/variants.h"

namespace headwise {

struct CorpusOptions {
  ObjectiveOptions objective = {};
  int64_t batch_tokens = 1024;  // at least one sequence, however long
  uint64_t seed = 0;
  KeptLosses* kept = nullptr;    // what is known, and is added to; may be null
  dist::Group* group = nullptr;  // ranks that share the batches; may be null
  ProgressCallback progress = {};
  std::stop_token stop = {};
};

class CorpusRuns {
 public:
  // Runs the whole model over the text once. Throws Error(kInvalidArgument)
  // for no text.
  CorpusRuns(Context& context, const Model& model,
             std::span<const TextExample> examples, CorpusOptions options);

  LossKind loss_kind() const { return objective_.kind(); }
  int64_t tokens() const { return tokens_; }
  // Predictions in each sequence, and their summed loss.
  const std::vector<double>& weights() const { return weights_; }
  const std::vector<double>& base() const { return base_; }

  // Mean output of each head over all rows, f32 [1, heads, E] on the host by
  // site.
  const HeadOutputs& means() const { return mean_; }

  // L2 norm over channels of the mean |output| of each head.
  std::vector<double> ActivationNorms(std::span<const HeadRef> heads) const;

  // Importance by gradients of gates, [heads][sequences]; its mean over
  // sequences is the criterion's value (kGradientBatch: that mean's size).
  LossTable Gradients(std::span<const HeadRef> heads, Criterion criterion);

  // Each variant's heads closed, what replaces them by the kind of ablation.
  // `stage`: the name under which losses are kept, of these variants alone.
  // Throws Error(kInvalidArgument) for resampling with one sequence.
  LossTable Ablate(std::span<const HeadSet> variants, Criterion ablation,
                   const std::string& stage);

  // Sums over the predictions of each sequence, of what a head adds directly
  // to the logit of the right token above the mean logit (self_repair.h): what
  // of it goes when the head is closed, and what the later heads' own direct
  // effects gain then. Empty where the model's heads have no direct effects.
  // `ablation` is zero or mean.
  struct Repair {
    LossTable lost;   // [heads][sequences]
    LossTable taken;  // over by later heads
  };
  Repair MeasureRepair(std::span<const HeadRef> heads, Criterion ablation);

 private:
  struct Batch {
    ExampleBatch examples;
    size_t first = 0;  // number of its first sequence
  };
  // Batches that run as one: each by itself on the CPU, several on a device,
  // which is not filled by one. What is computed of a batch stays its own.
  struct Group {
    size_t first = 0, count = 1;  // batches
  };
  void RequireRoomToBegin() const;
  std::vector<Group> Groups() const;
  // The examples of a group; `joined` keeps what is made.
  const ExampleBatch& ExamplesOf(const Group& group,
                                 ExampleBatch& joined) const;

  void RunWhole();
  // One group of it: losses and sums of outputs, as a message.
  std::string RunWhole(const Group& group);
  HeadOutputs Resampled(const Group& group, const ExampleBatch& examples);
  // Of so many rows; those of the batches that are not known.
  LossTable& Kept(const std::string& stage, size_t rows);
  std::vector<size_t> Missing(const LossTable& table, const Group& group) const;
  // Calls `run` for each of this rank's groups of which something is missing in
  // the last table, `known` for those that were known before, and `arrived` for
  // those that other ranks ran. Ends with tables that are whole on all ranks.
  using GroupCall = std::function<void(const Group&)>;
  void Fill(const std::vector<LossTable*>& tables, const GroupCall& run,
            const GroupCall& known, const GroupCall& arrived);
  void FillByBatch(const std::vector<LossTable*>& tables,
                   const std::function<void(size_t batch)>& run,
                   const char* stage);
  void Tell(const char* stage, double done, double total) const;

  Context& context_;
  const Model& model_;
  CorpusOptions options_;
  Objective objective_;
  SharedLosses shared_;
  KeptLosses own_;  // where nobody asked for what is kept
  std::vector<Batch> batches_;
  int64_t tokens_ = 0;
  std::vector<double> weights_;
  std::vector<double> base_;
  HeadOutputs mean_;      // [1, heads, E]
  HeadOutputs absolute_;  // the same of |output|
};

}  // namespace headwise
