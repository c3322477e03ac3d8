// Loss against heads that are left, for several orders of leaving.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "headwise/heads/pruning/choose.h"
#include "headwise/heads/pruning/evaluate.h"

namespace headwise {

struct CurveOptions {
  int64_t random_orders = 5;  // at least 2
  int64_t points = 10;        // of each order, the whole model left out
  ChooseOptions choose = {};  // `keep` is not read
  uint64_t seed = 0;
};

// The loss of the whole model with heads closed: what a model without them has
// before other repairs than folding. means: as JudgedText::Closed.
PruningCurve MakeCurve(const Model& model, std::span<const double> scores,
                       const JudgedText& text, const HeadOutputs* means,
                       const CurveOptions& options);

}  // namespace headwise
