// A PruneJob's words as values.
#pragma once

#include <span>
#include <string>

#include "headwise/heads/importance/objective.h"
#include "headwise/heads/pruning/choose.h"
#include "headwise/prune.h"

namespace headwise {

bool Does(const PruneJob& job, Repair repair);
// Throws Error(kInvalidArgument) for repairs in another order than the enum's,
// and for one that is named twice.
void RequireOrder(std::span<const Repair> repairs);

// "+1%" of a loss, or "+0.05nats"; a bare number is nats and at most 1, since
// a larger one is rather a share whose unit was forgotten. Throws
// Error(kInvalidArgument).
struct LossLimit {
  double value = 0;
  bool relative = false;
  double Of(double loss) const {
    return relative ? loss * (1 + value) : loss + value;
  }
};
LossLimit ParseLossLimit(const std::string& text);

// keep: as it was given, or all of what may leave.
ChooseOptions ChoiceOf(const PruneJob& job);

// Heads are chosen on the first three quarters of the text, and judged on the
// rest.
struct TextParts {
  std::span<const TextExample> choose, judge;
};
TextParts SplitText(std::span<const TextExample> examples);

}  // namespace headwise
