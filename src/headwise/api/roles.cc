// Roles of heads, and their weights. Doors: include/headwise/roles.h,
// head_weights.h.
#include "headwise/heads/roles/roles.h"

#include <string>

#include "headwise/api/state.h"
#include "headwise/base/fields.h"
#include "headwise/head_weights.h"
#include "headwise/heads/roles/confirm.h"
#include "headwise/heads/roles/roles_json.h"
#include "headwise/model/head_ref.h"
#include "headwise/nn/head_weights.h"

namespace headwise {

std::vector<HeadRef> HeadsOf(const Transformer& model) {
  return AllHeads(model.state().model());
}

std::vector<HeadRef> ParseHeads(std::string_view text,
                                const Transformer& model) {
  return ParseHeads(text, model.state().model());
}

std::vector<HeadRoles> FindRoles(const Profile& profile, const RoleJob& job) {
  return AssignRoles(profile, job);
}

void ConfirmRoles(Transformer& model, std::vector<HeadRoles>& heads,
                  const ConfirmJob& job) {
  const ModelUse use(model);
  RequireWhole(model, "roles");
  CheckFields(job, "roles");
  Transformer::State& state = model.state();
  ConfirmRoles(state.context, state.model(), state.checkpoint.FindTokenizer(),
               heads, job);
}

HeadMatrices WeightsOfHead(Transformer& model, const HeadRef& head) {
  const ModelUse use(model);
  RequireHead(model, head);
  Transformer::State& state = model.state();
  HeadWeights weights = WeightsOfHead(
      state.context, *AttentionLayers(state.model(), head.kind)[head.layer],
      head.head);
  HeadMatrices matrices;
  matrices.qk = QkProduct(state.context, weights);
  if (weights.o.size() > 0) matrices.ov = OvProduct(state.context, weights);
  matrices.q = std::move(weights.q);
  matrices.k = std::move(weights.k);
  matrices.v = std::move(weights.v);
  matrices.o = std::move(weights.o);
  return matrices;
}

std::string JsonText(const Profile& profile, std::span<const HeadRoles> roles,
                     bool every_metric) {
  return RolesJson(profile, roles, every_metric).dump(2);
}

}  // namespace headwise
