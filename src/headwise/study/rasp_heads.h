// Study rasp, heads side by side: things selected at once by what they are.
#pragma once

#include <cstdint>

#include "headwise/study/support/trained.h"

namespace headwise {

// Sources carry a symbol and Gaussian values; a query names two symbols, in
// order, and one attention layer is to return the values of both. Scores read
// symbols only, values nothing else, so that a head returns one mixture: h
// heads explain at most min(1, h/2). The mean R² on fresh sequences.
double SelectTwo(Context& context, int64_t heads, uint64_t seed, int64_t steps,
                 StudyClock& clock);

}  // namespace headwise
