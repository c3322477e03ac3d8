// When heads have roles, in words. include/headwise/explain.h has the rest.
#pragma once

#include <string>

#include "headwise/heads/roles/rules.h"

namespace headwise {

// When a head has the role: "previous ≥ 0.50, or its largest key in 90 % of
// rows".
std::string Condition(const RoleRule& rule, const RoleThresholds& thresholds);

}  // namespace headwise
