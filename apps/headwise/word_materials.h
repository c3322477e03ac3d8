// Annotated material as profile takes it, until that command is built on the
// public headers.
#pragma once

#include "headwise/heads/profile/words/word_materials.h"

namespace headwise {

using WordFlags = WordFiles;

}  // namespace headwise
