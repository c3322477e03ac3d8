// ModelInfo from a folder's headers.
#pragma once

#include "headwise/model/checkpoint.h"
#include "headwise/model_info.h"

namespace headwise {

// model: the checkpoint's, which alone knows what it reads; null where it
// cannot be opened.
ModelInfo InfoOf(const Checkpoint& checkpoint, const Model* model);

}  // namespace headwise
