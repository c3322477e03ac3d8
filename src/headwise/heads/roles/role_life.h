// Every role's score through a training run: how much of each role every head
// has, observed every so many steps.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "headwise/heads/profile/profile.h"

namespace headwise {

// All heads at one step.
struct RoleMoment {
  int64_t step = 0;
  std::vector<std::string> heads;  // "5.1"
  // By role, one a head: the mean of the rule's metric (rules.h), of offsets
  // the largest; of syntactic(RELATION), coreference and translation the points
  // above the baseline. NaN where it does not apply; roles that apply to no
  // head are left out.
  std::map<std::string, std::vector<double>> scores;
  // What each head was given, strongest first.
  std::vector<std::vector<std::string>> roles;

  // Heads that were given the role.
  int64_t CountOf(const std::string& role) const;
};

RoleMoment RolesAt(const Profile& profile, int64_t step);

// One JSON object a line: {"step": 50, "heads": ["0.0", …], "scores":
// {"previous-token": […], …}, "roles": [["previous-token"], [], …]}. Written
// whole; null where a number does not apply.
void WriteRoleLife(const std::filesystem::path& file,
                   const std::vector<RoleMoment>& life);
// Moments up to and with `last`; none where there is no such file. Throws
// Error(kCorrupt) naming the line.
std::vector<RoleMoment> ReadRoleLife(const std::filesystem::path& file,
                                     int64_t last);

}  // namespace headwise
