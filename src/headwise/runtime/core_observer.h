// Core statistics of every head of a run, summed: the least a caller may want
// to know, in memory that does not grow with the text.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/nn/hooks.h"
#include "headwise/observation.h"

namespace headwise {

using HeadSums = std::array<double, kSumColumns>;

class CoreObserver : public RunHooks {
 public:
  // Of runs with this context.
  explicit CoreObserver(Context& context) : context_(context) {}

  void BeforeAttention(const AttentionSite& site,
                       const AttentionProblem& problem,
                       AttentionArgs& args) override;
  void AfterAttention(const AttentionSite& site,
                      const AttentionProblem& problem,
                      const AttentionArgs& args) override;

  // By site, one a head: SumColumn over all sequences so far.
  const std::map<std::string, std::vector<HeadSums>>& sums() const {
    return sums_;
  }

 private:
  Context& context_;
  Observation observation_;
  Tensor call_sums_;  // f64 [B, H, kSumColumns]
  std::map<std::string, std::vector<HeadSums>> sums_;
};

}  // namespace headwise
