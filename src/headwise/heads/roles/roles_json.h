// Roles for machines: what `headwise roles --json` prints and the report holds.
// docs/roles.schema.json describes it.
#pragma once

#include <span>

#include "headwise/base/json.h"
#include "headwise/heads/roles/roles.h"

namespace headwise {

// {"model", "heads": [{"layer", "head", "kind", "roles": [{"name", "score",
// "low", "high", "count", "sink_excluded", …}], "metrics": {…}}]}. Metrics are
// {"mean", "low", "high", "count"} by name; those of single relations are left
// out unless `every_metric`. What is not finite is null.
Json RolesJson(const Profile& profile, std::span<const HeadRoles> roles,
               bool every_metric = false);

}  // namespace headwise
