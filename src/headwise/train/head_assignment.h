// Heads that are told what to attend to: the loss of an assigned head is the
// mean over its queries of −ln A[i, j], j being the relation's key of query i.
//
// With z = s · q·k + bias, ∂(−ln A[i, j]) / ∂z[i, ·] = A[i, ·] − 1[· = j]. No
// map is needed for that: Σ_j A[i, j] k_j is the operator's output with the
// keys as values, Σ_i A[i, j] q_i the gradient of the values with the queries
// as gradient of the output, and the rest are rows by their numbers. So it runs
// wherever the operator does.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/context.h"
#include "headwise/model/model.h"
#include "headwise/nn/hooks.h"
#include "headwise/train/batch.h"
#include "headwise/train/head_relations.h"

namespace headwise {

// The assignments of a run, for all its steps.
class AssignedHeads {
 public:
  AssignedHeads() = default;
  // Throws Error naming the assignment: kInvalidArgument for a head that the
  // model does not have or a relation that its mask never shows;
  // kUnsupported for encoder–decoders, soft-capped scores, learned spans and
  // a relative bias.
  AssignedHeads(std::vector<HeadAssignment> assignments, const Model& model);

  bool empty() const { return assignments_.empty(); }
  size_t size() const { return assignments_.size(); }
  const HeadAssignment& operator[](size_t i) const { return assignments_[i]; }
  const AttentionMask& mask(size_t i) const { return masks_[i]; }

 private:
  std::vector<HeadAssignment> assignments_;
  std::vector<AttentionMask> masks_;  // of their layers
};

// One pass of a step: adds the gradient of the assigned heads' loss to their
// queries and keys during the backward.
class AssignmentHooks : public RunHooks {
 public:
  // factors: one an assignment, what −ln A of one query counts. Borrows all.
  AssignmentHooks(Context& context, const AssignedHeads& heads,
                  std::span<const RelationPairs> pairs,
                  std::span<const double> factors);

  // Σ factor · −ln A over the queries of every assignment, after the backward.
  double loss() const { return loss_; }

  void AfterAttentionBackward(const AttentionSite& site,
                              const AttentionProblem& problem,
                              const AttentionArgs& args,
                              const AttentionGrads& grads) override;
  bool WantsSome() const override { return false; }

 private:
  Context& context_;
  const AssignedHeads& heads_;
  std::span<const RelationPairs> pairs_;
  std::span<const double> factors_;
  double loss_ = 0;
};

// Adds the gradient of factor · Σ −ln A[queries, keys] of one head of a packed
// call to dq and dk; returns that sum.
double AddAssignmentGradient(Context& context, const AttentionProblem& problem,
                             const AttentionArgs& args,
                             const AttentionGrads& grads, int64_t head,
                             const RelationPairs& pairs, double factor);

}  // namespace headwise
