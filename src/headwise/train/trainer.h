// Training steps: forward, backward, clip, update. Same configuration and
// seed: the same losses, at any number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "headwise/context.h"
#include "headwise/dist/group.h"
#include "headwise/model/model.h"
#include "headwise/model/parameters.h"
#include "headwise/model/sequence_pass.h"
#include "headwise/train/batch.h"
#include "headwise/train/classifier.h"
#include "headwise/train/config.h"
#include "headwise/train/gradient_sum.h"
#include "headwise/train/head_assignment.h"
#include "headwise/train/optimizer.h"
#include "headwise/train/timeline.h"

namespace headwise {

struct StepReport {
  int64_t step = 0;          // from 0
  double loss = 0;           // nats a target, before the update
  double penalty = 0;        // of gates, besides the loss
  double assigned = 0;       // of assigned heads, weighted, besides the loss
  double gradient_norm = 0;  // before clipping
  double rate = 0;
  int64_t tokens = 0;  // read, on both sides
};

// Borrows all it is given. The model must have been built from the store, and
// so must the classifier, which takes the place of the model's own head.
class Trainer {
 public:
  Trainer(Context& context, const TrainConfig& config, const Model& model,
          ParameterStore& store, const Classifier* classifier = nullptr);

  // Ranks that share each step and each evaluation, all with the same model;
  // null: this process alone. Every rank then calls the same. Before the first
  // step.
  void ShareWith(dist::Group* group);
  // Where it writes what was when; null: nowhere.
  void Record(Timeline* timeline);

  // One optimizer step on sequences step·batch … of the source. hooks: see
  // nn/hooks.h; gates set there are trained through. Throws
  // Error(kInvalidArgument) naming step and tensor, with the parameters left
  // as they were, when the loss or the gradient is not finite.
  StepReport Step(const BatchSource& source, const HookList& hooks = {});

  // Mean loss over the first `sequences` of the source, without dropout and
  // smoothing; NaN where there are no targets.
  double Evaluate(const BatchSource& source, int64_t sequences) const;

  // Gradients of the mean loss over a batch are added to the store's; returns
  // the sum of losses. scale: 1 / targets of the whole step.
  double Differentiate(const TrainBatch& batch, float scale,
                       DropoutMask dropout, const HookList& hooks,
                       const GateTraining* gates = nullptr) const;

  // Steps done, those of a resumed run included.
  int64_t step() const { return optimizer_.steps(); }
  Optimizer& optimizer() { return optimizer_; }
  const Optimizer& optimizer() const { return optimizer_; }

 private:
  // The same of a pass of the batch, to which what is kept is added.
  double Differentiate(const TrainBatch& batch, float scale,
                       PassInput input) const;
  double Loss(ConstTensorView x, const HeadTargets& targets,
              TensorView dx) const;
  // Pairs of every assignment, batch by batch: [batch][assignment].
  std::vector<std::vector<RelationPairs>> PairsOf(
      std::span<const TrainBatch> batches) const;
  [[noreturn]] void NameCulprit(const TrainBatch& batch, double loss,
                                double norm) const;

  Context& context_;
  const TrainConfig& config_;
  const Model& model_;
  ParameterStore& store_;
  const Classifier* classifier_;
  AssignedHeads assigned_;
  Optimizer optimizer_;
  dist::Group* group_ = nullptr;
  Timeline* timeline_ = nullptr;
  std::unique_ptr<GradientSum> sum_;  // from the first step on
};

}  // namespace headwise
