// A comparison as one self-contained HTML page: no network, no script, light
// and dark.
#pragma once

#include <string>

#include "headwise/study/compare/comparison.h"

namespace headwise {

std::string ComparePage(const Comparison& comparison);

}  // namespace headwise
