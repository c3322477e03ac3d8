// Roles and metrics in words, from the one table of rules and the one list of
// metrics.
#pragma once

#include <string>

#include "headwise/heads/roles/rules.h"

namespace headwise {

// When a head has the role: "previous ≥ 0.50, or its largest key in 90 % of
// rows".
std::string Condition(const RoleRule& rule, const RoleThresholds& thresholds);

// docs/metrics.md.
std::string MetricsPage();

}  // namespace headwise
