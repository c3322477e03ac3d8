// What a model is, from its folder's headers.
#pragma once

#include "headwise/model.h"
#include "headwise/model/checkpoint.h"

namespace headwise {

// predicts_tokens: whether it has a vocabulary head, which only the opened
// model knows.
ModelInfo InfoOf(const Checkpoint& checkpoint, bool predicts_tokens);

}  // namespace headwise
