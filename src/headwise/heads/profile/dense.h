// Metrics of attention that is given as matrices, from elsewhere or made by
// hand: it runs through the operator and the hooks like any other. Test only.
#pragma once

#include <cstdint>
#include <vector>

#include "headwise/context.h"
#include "headwise/nn/hooks.h"

namespace headwise {

struct DenseAttention {
  int64_t heads = 1;
  int64_t queries = 0;
  int64_t keys = 0;
  bool causal = false;               // entries above the diagonal are unseen
  std::vector<float> probabilities;  // [heads, queries, keys], rows sum to 1
};

// One sequence's attention at a site of the observer's profile; the observer
// has begun that sequence. Throws Error(kInvalidArgument) for wrong sizes.
void ObserveDense(Context& context, RunHooks& observer,
                  const AttentionSite& site, const DenseAttention& attention);

}  // namespace headwise
