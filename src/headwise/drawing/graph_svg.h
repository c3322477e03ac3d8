// The graph of heads that feed each other, layers from left to right.
#pragma once

#include <string>

#include "headwise/heads/composition/composition.h"

namespace headwise {

// Shown(top) edges; queries dashed, keys solid, values dotted; wider for
// a higher score over the baseline.
std::string CompositionSvg(const Composition& composition, size_t top,
                           std::string_view title);

}  // namespace headwise
