// What users' own detectors found, as text.
#pragma once

#include <string>

#include "headwise/drawing/text.h"
#include "headwise/profile.h"

namespace headwise {

// For each pattern of the profile the five heads that follow it most, beside
// chance. "" for a profile without any.
std::string DrawPatterns(const Profile& profile, const Console& console);

}  // namespace headwise
