// What users' own detectors found, as text.
#pragma once

#include <span>
#include <string>

#include "headwise/drawing/text.h"
#include "headwise/heads/profile/detector.h"
#include "headwise/profile.h"

namespace headwise {

// For each pattern of the profile the five heads that follow it most, beside
// chance. "" for a profile without any.
std::string DrawPatterns(const Profile& profile, const Console& console);

// Says on stderr of which patterns the text has no case.
void WarnUnmet(const Profile& profile, std::span<const Detector> detectors);

}  // namespace headwise
