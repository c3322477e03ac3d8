// Heads that leave in several steps, those that are left ranked anew before
// each: what a head is worth depends on who is still there.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "headwise/heads/pruning/choose.h"
#include "headwise/model/model.h"

namespace headwise {

using Heads = std::vector<HeadRef>;

struct IterativeWork {
  int64_t steps = 1;
  ChooseOptions choose = {};
  // The original without these heads; never called with none.
  std::function<std::unique_ptr<Model>(const Heads&)> without = {};
  // A score of each head of a model, in AllHeads' order.
  std::function<std::vector<double>(const Model&)> score = {};
};

struct Removal {
  // Growing sets as RemovalSets has them; the last is as large as `keep`
  // allows.
  std::vector<Heads> sets;
  // One a head of the original: what it was worth when it was last ranked.
  std::vector<double> scores;
};

// With one step as ChooseHeads, but never beyond a unit that does not fit.
// Throws as ChooseHeads does, before any work.
Removal RemoveInSteps(const Model& model, const IterativeWork& work);

}  // namespace headwise
