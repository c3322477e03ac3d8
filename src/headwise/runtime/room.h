// Whether there is memory for a run, asked before it is begun: it might be
// killed without a word.
#pragma once

#include <cstdint>

#include "headwise/context.h"
#include "headwise/model/model.h"

namespace headwise {

// Throws Error(kOutOfMemory) where a run of so many tokens at once takes more
// memory than the host has free.
void RequireRoom(const ModelConfig& config, int64_t tokens);

// Throws Error(kOutOfMemory) where the context's device has not the room that a
// model's weights in its type, and the caches and activations of `tokens`
// tokens, will take: before any of it is copied there. The host is not asked.
void RequireRoom(Context& context, const Model& model, int64_t tokens);
// The same of known numbers, in bytes.
void RequireRoom(Device device, double weights, double run, double free);

}  // namespace headwise
