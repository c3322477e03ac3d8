// Weights in f16 in the order in which a processor with the right instructions
// reads them for one or two rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "headwise/ops/matmul/prepared_weights.h"

namespace headwise {

// What they take in that order; 0: they never are.
size_t HalfLinesBytes(const PreparedWeights& weights);

// The hint of matmul.h.
void ExpectHalfLines(Context& context, const PreparedWeights& weights,
                     int64_t rows);

}  // namespace headwise
