// The forward of cpu.f32 for few queries a head, as in generating text: keys
// and values are read where they lie, once for all heads of a group.
#pragma once

#include "headwise/context.h"
#include "headwise/ops/attention/cpu/forward_plan.h"

namespace headwise {

// Up to here packing a tile costs more than it saves: a packed tile computes
// whole panels of queries (12 on NEON) whether they are in use or not.
inline constexpr int64_t kFewQueries = 4;

void DecodeF32(Context& context, const ForwardCall& call);

}  // namespace headwise
