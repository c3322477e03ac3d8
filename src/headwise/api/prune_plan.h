// Which heads leave: given, ranked, or searched for by what a smaller model
// loses or gains when it is measured.
#pragma once

#include <string>
#include <vector>

#include "headwise/api/pruner.h"
#include "headwise/heads/pruning/evaluate.h"

namespace headwise {

// The inputs of a plan. Borrowed.
struct PlanWork {
  Transformer& model;
  const JudgedInput& input;
  const PruneJob& job;
  Pruner& pruner;
  const JudgedText& judge;
  const std::string& domain;  // of what judges
};

// A score of each head of `now`, the model or a smaller one, in AllHeads'
// order.
std::vector<double> ScoreHeads(const PlanWork& work, const Model& now);

// The weights that a plan's heads leave: the model's own, or those that learned
// along with gates, again as the plan says where they are not in use already.
void UseWeightsOf(const PruningPlan& plan, const PlanWork& work);

// Throws Error(kInvalidArgument) for a target that cannot be reached, with the
// nearest that can.
PruningPlan MakePlan(const PlanWork& work);

}  // namespace headwise
