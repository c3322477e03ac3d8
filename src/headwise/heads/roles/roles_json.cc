// Roles as JSON. Door: roles_json.h.
#include "headwise/heads/roles/roles_json.h"

#include "headwise/heads/profile/profile_json.h"

namespace headwise {
namespace {

Json RoleJson(const Role& role) {
  Json json = {{"name", role.name},
               {"score", FiniteOrNull(role.score)},
               {"low", FiniteOrNull(role.low)},
               {"high", FiniteOrNull(role.high)},
               {"count", FiniteOrNull(role.count)},
               {"shape", role.shape},
               {"sink_excluded", role.sink_excluded},
               {"content_mass", FiniteOrNull(role.content_mass)},
               {"material", role.material},
               {"evidence", role.evidence}};
  if (role.check) {
    json["check"] = {{"behaviour", role.check->behaviour},
                     {"before", FiniteOrNull(role.check->before)},
                     {"after", FiniteOrNull(role.check->after)}};
  }
  return json;
}

Json MetricsJson(const Profile& profile, size_t head, bool every) {
  Json json = Json::object();
  for (const auto& [name, tallies] : profile.metrics) {
    if (!every && name.starts_with("syntactic.")) continue;
    if (tallies[head].empty()) continue;
    json[name] = ToJson(profile.Get(name, head));
  }
  return json;
}

}  // namespace

Json RolesJson(const Profile& profile, std::span<const HeadRoles> roles,
               bool every_metric) {
  Json heads = Json::array();
  for (size_t h = 0; h < roles.size(); ++h) {
    const HeadRoles& head = roles[h];
    Json list = Json::array();
    for (const Role& role : head.roles) list.push_back(RoleJson(role));
    heads.push_back({{"layer", head.head.layer},
                     {"head", head.head.head},
                     {"kind", Name(head.head.kind)},
                     {"roles", list},
                     {"metrics", MetricsJson(profile, h, every_metric)}});
  }
  return {{"model", profile.model}, {"heads", heads}};
}

}  // namespace headwise
