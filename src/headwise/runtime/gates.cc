// Gates of a run. Door: gates.h.
#include "headwise/runtime/gates.h"

namespace headwise {

ClosedHeads::ClosedHeads(const Model& model, std::span<const HeadRef> closed) {
  for (const HeadRef& head : closed) {
    const AttentionLayer& layer =
        *AttentionLayers(model, head.kind)[head.layer];
    std::vector<float>& gates = gates_[layer.site().name];
    gates.resize(layer.config().heads, 1.0f);
    gates[head.head] = 0.0f;
  }
}

void ClosedHeads::BeforeAttention(const AttentionSite& site,
                                  const AttentionProblem& problem,
                                  AttentionArgs& args) {
  const auto found = gates_.find(site.name);
  if (found == gates_.end()) return;
  args.gates =
      ConstTensorView(found->second.data(), DType::kF32,
                      {args.q.shape[0], args.q.shape[1], problem.heads});
  args.gates.stride = {0, 0, 1};
}

}  // namespace headwise
