// One case of the study k-lookup, for its table and for tests.
#pragma once

#include <cstdint>

#include "headwise/context.h"
#include "headwise/study/support/trained.h"

namespace headwise {

struct LookupCase {
  int64_t heads = 1;
  int64_t values = 1;
  // Scores read places only and values the scalar only; else both read all.
  bool separate = true;
  uint64_t seed = 1;
  int64_t steps = 500;
  double rate = 0.01;
};

// Trains one layer to return the values at the marked places. Returns the mean
// R² over them on fresh sequences.
double LearnLookup(Context& context, const LookupCase& one, StudyClock& clock);

}  // namespace headwise
