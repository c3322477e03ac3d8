// What tells apart the files that processes read, wherever each of them has
// its copy.
#pragma once

#include <filesystem>
#include <span>
#include <string>

namespace headwise {

// "2 files, 1024 bytes, hash 0123456789abcdef": by content and order, not by
// name. Of a file beyond 64 MiB its size and 64 pieces count, so that a large
// corpus is not read twice. Throws as MappedFile does.
std::string HashFiles(std::span<const std::filesystem::path> files);

}  // namespace headwise
