// Part (b) of the study rank: what width is good for when it is learned.
#pragma once

#include "headwise/context.h"
#include "headwise/study/study.h"

namespace headwise {

// Trains layers of equal size that differ in how they split it, 1 × 64, 8 × 8
// and 64 × 1, to return the nearest of 16 points; adds figures, a table and a
// picture.
void AddNearestNeighbour(Context& context, const StudyRequest& request,
                         StudyResult& result);

}  // namespace headwise
