// Two hooks of one run.
#pragma once

#include <memory>
#include <utility>

#include "headwise/nn/hooks.h"

namespace headwise {

// The first, then the second, around every attention call. What the first
// observed it may have taken down by the time the second looks at the call,
// which is shown to that one without an observation. Both must outlive this.
class BothHooks : public RunHooks {
 public:
  BothHooks(RunHooks& first, RunHooks& second)
      : first_(first), second_(second) {}

  void BeforeAttention(const AttentionSite& site,
                       const AttentionProblem& problem,
                       AttentionArgs& args) override {
    first_.BeforeAttention(site, problem, args);
    second_.BeforeAttention(site, problem, args);
  }
  void AfterAttention(const AttentionSite& site,
                      const AttentionProblem& problem,
                      const AttentionArgs& args) override {
    first_.AfterAttention(site, problem, args);
    AttentionArgs scores = args;
    scores.observation = nullptr;
    second_.AfterAttention(site, problem, scores);
  }
  void KeepCall(std::shared_ptr<const void> memory) override {
    first_.KeepCall(memory);
    second_.KeepCall(std::move(memory));
  }

 private:
  RunHooks& first_;
  RunHooks& second_;
};

}  // namespace headwise
