// A text in batches, and the loss of every sequence of it under every way of
// closing heads. What ranking.h computes its statistics from.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/heads/importance/criterion.h"
#include "headwise/heads/importance/loss_table.h"
#include "headwise/heads/importance/objective.h"
#include "headwise/heads/importance/site_means.h"
#include "headwise/heads/importance/variants.h"
#include "headwise/runtime/text_pass.h"

namespace headwise {

struct CorpusOptions {
  ObjectiveOptions objective = {};
  int64_t batch_tokens = 1024;  // at least one sequence, however long
  uint64_t seed = 0;
  PassOptions pass = {};
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
  // name: under which losses are kept, of these variants alone. Throws
  // Error(kInvalidArgument) for resampling with one sequence.
  LossTable Ablate(std::span<const HeadSet> variants, Criterion ablation,
                   const std::string& name);

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
  // One group of it: losses, sums of outputs and references, as a message.
  std::string RunWhole(const Group& group);
  HeadOutputs Resampled(const Group& group, const ExampleBatch& examples);
  // Sequences of a group.
  size_t FirstOf(size_t group) const;
  size_t EndOf(size_t group) const;
  // A table that groups of batches fill; how is the caller's.
  TableWork TableByGroups(const char* stage, size_t rows) const;
  // The same, each batch run by itself: `run` fills its columns, from `first`.
  using RunBatch = std::function<void(const ExampleBatch& examples,
                                      LossTable& columns, size_t first)>;
  LossTable FillByBatch(const std::string& stage, size_t rows,
                        const RunBatch& run);

  Context& context_;
  const Model& model_;
  CorpusOptions options_;
  Objective objective_;
  std::vector<Batch> batches_;
  std::vector<Group> groups_;
  int64_t tokens_ = 0;
  std::vector<double> weights_;
  std::vector<double> base_;
  HeadOutputs mean_;      // [1, heads, E]
  HeadOutputs absolute_;  // the same of |output|
};

}  // namespace headwise
