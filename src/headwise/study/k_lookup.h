// One case of the study k-lookup, for its table and for tests.
#pragma once

#include <cstdint>

#include "headwise/context.h"
#include "headwise/study/support/trained.h"

namespace headwise {

enum class LookupForm {
  kRestricted,  // scores read places only and values the scalar only
  kNoisy,       // both read all, values with noise on the places
  kFree,        // both read all
};

struct LookupCase {
  int64_t heads = 1;
  int64_t values = 1;
  LookupForm form = LookupForm::kRestricted;
  uint64_t seed = 1;
  int64_t steps = 500;
  double rate = 0.01;
};

// Trains one layer to return the values at the marked places. Returns the mean
// R² over them on fresh sequences.
double LearnLookup(Context& context, const LookupCase& one, StudyClock& clock);

}  // namespace headwise
