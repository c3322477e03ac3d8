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

struct CurvePoint {
  int64_t removed = 0;
  double loss = 0;  // a prediction
};

struct CurveOrder {
  std::string name;  // "importance", "reversed", "random 1", …
  std::vector<CurvePoint> points;
  double area = 0;  // the mean loss over the heads removed, by trapezia
};

struct PruningCurve {
  int64_t heads = 0;
  std::vector<CurveOrder> orders;  // importance, reversed, then random ones
  // Over the random orders: their mean area with a 95 % interval of Student's
  // t, and importance less that mean, with the same interval around it.
  Interval random_area;
  Interval gain;
};

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
