// How much memory this process may still take.
#pragma once

#include <cstdint>
#include <optional>

namespace headwise {

// Bytes: what the system has to give, less where a limit of the process or of
// its control group is nearer. None where the system does not tell.
std::optional<uint64_t> FreeMemory();

}  // namespace headwise
