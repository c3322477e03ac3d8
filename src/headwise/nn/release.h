// Weights whose memory may go back to the system, where a file holds them.
#pragma once

#include <cstddef>

#include "headwise/nn/parameter.h"

namespace headwise {

// A dense weight was read whole, packed perhaps, and will not be read soon.
void ReleaseWeight(const Parameter& weight);

// So many rows of a table were read by id. The system brings some twenty rows
// around each into memory, so that a batch of text brings most of the table;
// a large one is better read again, from the file's cache.
void ReleaseTable(const Parameter& table, size_t ids);

}  // namespace headwise
