// Heads that need all of the past, by their roles and by how far they look:
// what a cache policy keeps whole. FarReaders itself is in heads.h.
#pragma once

#include "headwise/heads/roles/roles.h"

namespace headwise {

// Mass beyond a window and off the first token from which a head reads far.
inline constexpr double kFarMass = 0.3;

}  // namespace headwise
