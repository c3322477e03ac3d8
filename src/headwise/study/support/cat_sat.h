// The pictures that texts about attention draw of "The cat sat on the mat":
// rows that heads might give, and small maps of positional heads. Every row
// sums to 1.
#pragma once

#include <vector>

#include "headwise/study/picture.h"

namespace headwise {

std::vector<HeatMap> CatSatExamples();

}  // namespace headwise
