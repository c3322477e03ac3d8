// Roles of heads: what each one does, with its evidence, or "no role". Reads a
// profile; the rules are one table (rules.h).
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "headwise/heads/profile/profile.h"
#include "headwise/heads/roles/rules.h"
#include "headwise/profile.h"
#include "headwise/roles.h"

namespace headwise {

// One a head, in the profile's order. A head has a role where the whole 95 %
// interval of its score is past the threshold; of one sequence, which has no
// interval, where the score is. A role that passes with the sinks counted
// stands before one that passes only without them; a mere shape stands last.
std::vector<HeadRoles> AssignRoles(const Profile& profile,
                                   const RoleJob& job = {});

// Mass beyond a window and off the first token from which a head reads far
// (FarReaders).
inline constexpr double kFarMass = 0.3;

// Those of them that have one.
std::set<HeadRef> HeadsWithRoles(const Profile& profile);

}  // namespace headwise
