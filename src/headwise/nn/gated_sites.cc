// Gates by site. Door: gated_sites.h.
#include "headwise/nn/gated_sites.h"

#include "headwise/tensor/slice.h"

namespace headwise {

void GatedSites::BeforeAttention(const AttentionSite& site,
                                 const AttentionProblem& problem,
                                 AttentionArgs& args) {
  const auto found = sites.find(site.name);
  if (found == sites.end()) return;
  const SiteGates& set = found->second;
  const ConstTensorView gates =
      set.heads.empty() ? set.rows.view() : ViewOf(set.heads);
  const int64_t batch = args.q.shape[0], rows = args.q.shape[1];
  args.gates = Broadcast(gates, {batch, rows, problem.heads});
  args.replacement =
      Broadcast(set.replacement, {batch, rows, problem.heads, args.v.shape[3]});
}

}  // namespace headwise
