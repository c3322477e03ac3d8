// Texts longer than a model knows positions for, which rotary positions allow,
// or than the memory has room for.
#pragma once

#include <cstdint>
#include <span>

#include "headwise/model/config.h"
#include "headwise/runtime/windows.h"

namespace headwise {

// Says on standard error that heads will be seen where they were not trained,
// if `tokens` in one window are more than the model's context.
void WarnPastContext(const ModelConfig& config, int64_t tokens);

// Throws Error(kOutOfMemory) where a run of so many tokens at once takes more
// memory than is free, before it is begun: it might be killed without a word.
void RequireRoom(const ModelConfig& config, int64_t tokens);

// Tokens of the longest window, of either side.
int64_t Longest(std::span<const TokenWindow> windows);

// The tokens of a window where losses are compared: as asked for, else short,
// since intervals rest on the number of sequences.
int64_t ShortContext(const ModelConfig& config, int64_t asked);

}  // namespace headwise
