// Bytes of a file or of standard input, decompressed on the way: gzip, xz and
// zstd are known by their first bytes, whatever the file is called.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>

namespace headwise {

// One reader at a time. Every failure throws Error naming the file: kIo when
// the system refuses, kCorrupt for a damaged or truncated compressed stream.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Up to `size` bytes into `data`; 0 at the end.
  virtual size_t Read(char* data, size_t size) = 0;
};

// `path` "-" is standard input. Throws Error(kNotFound).
std::unique_ptr<ByteStream> OpenBytes(const std::filesystem::path& path);

}  // namespace headwise
