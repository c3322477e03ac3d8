// Amounts of memory as people read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace headwise {

// "512 B", "3.2 GiB"
std::string ByteSize(uint64_t bytes);

// The same the other way round, a number and its unit of powers of 1024: "0 B",
// "512MiB", "1.5 GiB". Nothing for any other text and for 2^63 bytes and more.
std::optional<uint64_t> ParseByteSize(std::string_view text);

}  // namespace headwise
