// Switching heads off (or down) for a run, by gates: out = g·O + (1 − g)·μ.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "headwise/model/head_ref.h"
#include "headwise/nn/hooks.h"

namespace headwise {

// Hooks that close the given heads: their output is 0, as if their rows of
// W_O were.
class ClosedHeads : public RunHooks {
 public:
  ClosedHeads(const Model& model, std::span<const HeadRef> closed);

  void BeforeAttention(const AttentionSite& site,
                       const AttentionProblem& problem,
                       AttentionArgs& args) override;

 private:
  std::map<std::string, std::vector<float>> gates_;  // by site, one a head
};

}  // namespace headwise
