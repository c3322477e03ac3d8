// Whether the stream of a stack is the sum of what its steps add, so that the
// share of each head can be read off it.
#pragma once

#include <string>

#include "headwise/model/model.h"

namespace headwise {

// Empty, or which step does otherwise, and how: "layer.3.attention: a norm of
// the sum".
std::string WhyNotSum(const Stack& stack);

}  // namespace headwise
