// How much memory a process may still take.
#pragma once

#include <cstdint>
#include <optional>

#include "headwise/export.h"

namespace headwise {

/// Bytes of the host that this process may still take: what the system has
/// free, less where a limit of the process or of its control group is nearer.
/// Nothing where the system does not say.
HEADWISE_API std::optional<uint64_t> FreeMemory();

}  // namespace headwise
