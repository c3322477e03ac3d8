// Groups of like heads by average linkage, and a map of them by classical
// scaling. Both take distances only.
#pragma once

#include <cstdint>
#include <vector>

#include "headwise/tensor/matrix.h"

namespace headwise {

struct Clustering {
  std::vector<int64_t> group;  // one a head, counted by first member
  std::vector<int64_t> order;  // heads such that like ones are neighbours
};

// Joins the two groups with the least mean distance while it is at most `cut`.
// distance [n, n], symmetric.
Clustering AverageLinkage(const Matrix& distance, double cut);

// Points in the plane [n, 2] whose distances are near those given (Torgerson):
// the two leading axes of the double-centred squares, the first one wider.
Matrix ClassicalScaling(const Matrix& distance);

}  // namespace headwise
