// Which heads leave: given, ranked, or searched for by what a smaller model
// loses or gains when it is measured.
#pragma once

#include <string>
#include <vector>

#include "headwise/heads/pruning/evaluate.h"
#include "headwise/heads/pruning/plan.h"
#include "prune_repair.h"

namespace headwise {

// A score of each head of the model, in AllHeads' order.
std::vector<double> ScoreHeads(const PruneOptions& options,
                               const PruneMaterial& material,
                               const Model& model, Context& context);

// judge: null where it is not needed yet. `note`: how a search went, for
// people. Throws Error(kInvalidArgument) for a target that cannot be reached,
// with the nearest that can.
PruningPlan MakePlan(const PruneOptions& options, const PruneMaterial& material,
                     Pruner& pruner, const JudgedText& judge, Context& context,
                     std::string& note);

}  // namespace headwise
