// Validation and dispatch of the attention operator. Door:
// include/headwise/attention.h.
#include "headwise/attention.h"

#include "headwise/ops/attention/implementation.h"

namespace headwise {

std::span<const AttentionImplementation> AttentionImplementations() {
  return {};
}

}  // namespace headwise
