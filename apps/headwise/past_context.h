// Texts longer than a model knows positions for, which rotary positions allow.
#pragma once

#include <cstdint>

#include "headwise/model/config.h"
#include "headwise/runtime/room.h"
#include "headwise/runtime/text_notices.h"

namespace headwise {

// Says on standard error that heads will be seen where they were not trained,
// if `tokens` in one window are more than the model's context.
void WarnPastContext(const ModelConfig& config, int64_t tokens);

// The tokens of a window where losses are compared: as asked for, else short,
// since intervals rest on the number of sequences.
int64_t ShortContext(const ModelConfig& config, int64_t asked);

}  // namespace headwise
