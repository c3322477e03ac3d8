// How the CPU's implementations of copy share out a call.
#pragma once

#include <cstdint>

#include "headwise/ops/copy/implementation.h"

namespace headwise {

// `count` elements, `from_step` and `to_step` elements apart.
using MoveRun = void (*)(const char* from, int64_t from_step, char* to,
                         int64_t to_step, int64_t count);

// The whole call by `move`, over the context's threads.
void MoveAll(Context& context, const CopyCall& call, MoveRun move);

}  // namespace headwise
