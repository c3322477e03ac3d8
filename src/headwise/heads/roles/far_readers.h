// Heads that need all of the past, by their roles and by how far they look:
// what a cache policy keeps whole (runtime/kv_policy.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "headwise/heads/roles/roles.h"

namespace headwise {

// Mass beyond a window and off the first token from which a head reads far.
inline constexpr double kFarMass = 0.3;

struct FarReader {
  HeadRef head;
  std::string why;  // "induction .93", "far .41"
};

// Self-attention heads with a role that finds its key wherever it stands
// (induction, retrieval, duplicate, coreference), and, of a profile that has
// text, those whose mean mass at distances of `window` and more, less that on
// the first token, is kFarMass. Distances are known by powers of two: a window
// between two counts as the larger.
std::vector<FarReader> FarReaders(const Profile& profile,
                                  std::span<const HeadRoles> roles,
                                  int64_t window);

}  // namespace headwise
