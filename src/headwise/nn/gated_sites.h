// Hooks that close heads, or turn them down, site by site: out = g·O + (1 −
// g)·μ.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "headwise/nn/hooks.h"
#include "headwise/tensor.h"

namespace headwise {

// All f32, on the host or on the run's device.
struct SiteGates {
  Tensor gates;  // [heads], or of each row [rows, heads]
  // μ: what stands in for closed heads, [heads, E] or [rows, heads, E] (rows 1:
  // the same for all); null: 0.
  ConstTensorView replacement = {};
  Tensor memory = {};  // of the replacement, unless it is the caller's
};

class GatedSites : public RunHooks {
 public:
  // The gates of a site, one a head on the host; 1 when they are made.
  float* Open(const std::string& site, int64_t heads);

  std::map<std::string, SiteGates, std::less<>> sites;

  void BeforeAttention(const AttentionSite& site,
                       const AttentionProblem& problem,
                       AttentionArgs& args) override;
  bool KeepsCalls() const override { return false; }
  bool WantsSome() const override { return false; }
};

}  // namespace headwise
