// Linear biases by distance (ALiBi) for models whose layers have none of their
// own: z_ij − slope_h · (i − j), slopes 2^(−8/H), 2^(−16/H), … (Press et al.
// 2022).
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "headwise/nn/hooks.h"

namespace headwise {

// In a causal row −slope · i is the same for all keys, so slope · j is enough:
// the last of a head's dimensions is taken for it, in queries slope / scale, in
// keys the place j, and does not learn. Give it to every run of a model; f32 on
// the CPU, packed sequences, a key/value head for each head.
class AlibiBias : public RunHooks {
 public:
  void BeforeAttention(const AttentionSite& site,
                       const AttentionProblem& problem,
                       AttentionArgs& args) override;
  void AfterAttentionBackward(const AttentionSite& site,
                              const AttentionProblem& problem,
                              const AttentionArgs& args,
                              const AttentionGrads& grads) override;

 private:
  struct Copies {
    std::vector<float> q, k;  // [T, H, D]
  };
  std::map<int64_t, Copies> layers_;
};

double AlibiSlope(int64_t head, int64_t heads);

}  // namespace headwise
