// Gates by site. Door: gated_sites.h.
#include "headwise/nn/gated_sites.h"

#include <algorithm>

#include "headwise/tensor/slice.h"

namespace headwise {

float* GatedSites::Open(const std::string& site, int64_t heads) {
  Tensor& gates = sites[site].gates;
  if (gates.size() == 0) {
    gates = Tensor(DType::kF32, {heads});
    std::fill_n(gates.As<float>(), heads, 1.0f);
  }
  return gates.As<float>();
}

void GatedSites::BeforeAttention(const AttentionSite& site,
                                 const AttentionProblem& problem,
                                 AttentionArgs& args) {
  const auto found = sites.find(site.name);
  if (found == sites.end()) return;
  const SiteGates& set = found->second;
  const int64_t batch = args.q.shape[0], rows = args.q.shape[1];
  args.gates = Broadcast(set.gates.view(), {batch, rows, problem.heads});
  args.replacement =
      Broadcast(set.replacement, {batch, rows, problem.heads, args.v.shape[3]});
}

}  // namespace headwise
