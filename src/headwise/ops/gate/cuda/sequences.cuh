// Tokens of sequences end to end, as gate.h has them.
#pragma once

#include <cstdint>

namespace headwise {

// The sequence of a token: the last that begins at it or before, so that those
// of no tokens are passed over. starts: [sequences + 1].
__device__ inline int64_t SequenceOf(const int32_t* starts, int64_t sequences,
                                     int64_t token) {
  int64_t low = 0, high = sequences;
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (starts[middle] <= token ? low : high) = middle;
  }
  return low;
}

}  // namespace headwise
