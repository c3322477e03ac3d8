// A cache whose heads keep different parts of the past: some all of it, others
// its beginning (sinks) and its end (a window). Groups of heads that share keys
// and are kept alike lie side by side in a part; a part is one call of the
// operator, which costs what the part keeps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/attention.h"
#include "headwise/context.h"

namespace headwise {

// Adjacent groups of one layer.
struct CachePart {
  int64_t first_group = 0;
  int64_t groups = 0;
  bool whole = true;
  // [B, reserved, groups, D] and [B, reserved, groups, E], or wider with zeros
  // in the columns that no head has.
  TensorView k = {};
  TensorView v = {};
};

// The caches of one layer. All sequences have come equally far.
struct CacheSplit {
  int64_t sinks = 0;
  int64_t window = 1;  // a query and what is before it: at least 1
  // Rows that parts with a window hold before this call, in order: once more
  // came than are reserved, the sinks and the last window − 1.
  int64_t held = 0;
  std::vector<CachePart> parts = {};

  // Rows such a part holds after `fresh` more, where `reserved` rows fit,
  // which is more than sinks + window − 1.
  int64_t HeldAfter(int64_t fresh, int64_t reserved) const {
    return held + fresh <= reserved ? held + fresh : sinks + window - 1;
  }
};

// New keys and values of all groups, and where they go.
struct SplitKeys {
  TensorView k = {};                   // [B, M, G, D]
  TensorView v = {};                   // [B, M, G, E]
  std::span<const int32_t> held = {};  // [B] rows of whole parts
  const CacheSplit* split = nullptr;
  int64_t head_multiple = 0;  // as the layer's
};

// The layer's attention over the cache and the new rows, which join it.
// problem.mask is the layer's own; args has q, out, gates, replacement and
// active heads. The caller then advances `split`. A head with a window sees
// exactly the keys j with j < sinks or p − window < j ≤ p.
void AttendSplit(Context& context, const AttentionProblem& problem,
                 const AttentionArgs& args, const SplitKeys& fresh);

}  // namespace headwise
