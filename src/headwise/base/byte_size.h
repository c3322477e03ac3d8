// Amounts of memory as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace headwise {

// "512 B", "3.2 GiB"
std::string ByteSize(uint64_t bytes);

}  // namespace headwise
