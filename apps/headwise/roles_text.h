// Roles of heads as text for a terminal of any width.
#pragma once

#include <span>
#include <string>

#include "headwise/drawing/text.h"
#include "headwise/profile.h"
#include "headwise/roles.h"

namespace headwise {

// A map of layers × heads with one letter a role, and what the letters mean.
std::string DrawRoleMap(std::span<const HeadRoles> heads,
                        const Console& console);

// Each head with its roles, scores, intervals and evidence. Heads without a
// role are shown only where `all`, with what came closest.
std::string DrawRoles(std::span<const HeadRoles> heads, bool all,
                      const Console& console);

// Scores on annotated material: for each relation of a treebank the head that
// was chosen on one half, beside the best fixed offset on the other; the best
// heads for coreference and translation beside their baselines. "" for none.
std::string DrawWords(const Profile& profile, const Console& console);

// Scores of users' own detectors: for each pattern of the profile the five
// heads that follow it most, beside chance. "" for a profile without any.
std::string DrawPatterns(const Profile& profile, const Console& console);

}  // namespace headwise
