// What a head does to the token that it reads, in words.
#pragma once

#include <string>

#include "headwise/heads/profile/profile.h"

namespace headwise {

// "It copies: …", "It suppresses: …" or neither, by "copying.run" of the
// profile alone, or why that is not known. `head`: an index of its heads.
std::string CopyingSentence(const Profile& profile, size_t head);

}  // namespace headwise
