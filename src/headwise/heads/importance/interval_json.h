// Intervals for machines.
#pragma once

#include "headwise/base/json.h"
#include "headwise/loss.h"

namespace headwise {

// {"value", "low", "high"}; null for what is not finite.
Json ToJson(const Interval& interval);

}  // namespace headwise
