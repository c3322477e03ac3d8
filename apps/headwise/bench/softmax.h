// A vectorised softmax for attention that is composed of library products, so
// that such a peer is not held back by a scalar one.
#pragma once

#include <cstdint>

namespace headwise::bench {

// Turns row[0 … visible) into its softmax and row[visible … length) into zeros.
void SoftmaxRow(float* row, int64_t visible, int64_t length);

}  // namespace headwise::bench
