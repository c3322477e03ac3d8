// What memory that kernels read begins at.
#pragma once

#include <cstddef>

namespace headwise {

inline constexpr size_t kAlignment = 64;

}  // namespace headwise
