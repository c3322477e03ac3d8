// A figure with its interval, for tables.
#pragma once

#include <string>

#include "headwise/loss.h"

namespace headwise {

// "2.3410 [2.2977, 2.3844]"
std::string ToText(const Interval& interval, bool sign = false);

}  // namespace headwise
