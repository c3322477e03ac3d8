// The layout of packed operands, for code outside the vector kernels.
#pragma once

#include <cstdint>

namespace headwise {

// Columns of B in one packed panel on this machine: three vectors.
int64_t PackedColumns();

}  // namespace headwise
