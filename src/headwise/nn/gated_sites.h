// Hooks that close heads, or turn them down, site by site:
// out = g·O + (1 − g)·μ.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "headwise/nn/hooks.h"
#include "headwise/tensor.h"

namespace headwise {

struct SiteGates {
  // One a head for all rows; empty: those of `rows`, f32 [rows, heads].
  std::vector<float> heads;
  Tensor rows = {};
  // μ: what stands in for closed heads, f32 [heads, E] or [rows, heads, E]
  // (rows 1: the same for all); null: 0.
  ConstTensorView replacement = {};
  Tensor memory = {};  // of the replacement, unless it is the caller's
};

class GatedSites : public RunHooks {
 public:
  // The gates of a site, 1 where they are not set yet.
  std::vector<float>& Open(const std::string& site, int64_t heads) {
    std::vector<float>& gates = sites[site].heads;
    gates.resize(heads, 1.0f);
    return gates;
  }

  std::map<std::string, SiteGates, std::less<>> sites;

  void BeforeAttention(const AttentionSite& site,
                       const AttentionProblem& problem,
                       AttentionArgs& args) override;
  bool KeepsCalls() const override { return false; }
  bool WantsSome() const override { return false; }
};

}  // namespace headwise
