// Model and text of a profile, in one line. For profile and merge.
#pragma once

#include <fmt/core.h>

#include <string>

#include "headwise/drawing/text.h"
#include "headwise/profile.h"

namespace headwise {

inline std::string ProfileTitle(const Profile& profile) {
  return fmt::format(
      "{}: {} on {} of {}", profile.model,
      Counted(static_cast<int64_t>(profile.heads.size()), "head"),
      Counted(profile.counts.tokens, "token"),
      Counted(profile.counts.windows, "window"));
}

}  // namespace headwise
