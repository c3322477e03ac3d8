// Roles through a training run as a picture: how many heads have each, the
// strongest head of each, and maps of every head's score.
#pragma once

#include <filesystem>
#include <vector>

#include "headwise/heads/roles/role_life.h"

namespace headwise {

// `life` has at least one moment.
void WriteRoleChart(const std::filesystem::path& file,
                    const std::vector<RoleMoment>& life);

}  // namespace headwise
