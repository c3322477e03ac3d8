// A file as read-only memory: nothing is read before it is touched.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace headwise {

// What the system tells a file and its contents by: device, inode, size, and
// when it was last written and last changed, in seconds and nanoseconds.
using FileIdentity = std::array<int64_t, 7>;

// Owns the mapping; moving keeps pointers into it valid. Safe to read from any
// number of threads. A file that another program shortens while it is mapped
// raises SIGBUS on access, as with every memory map: replace files by renaming
// (atomic_file.h) instead.
class MappedFile {
 public:
  MappedFile() = default;
  // Throws Error(kNotFound) when there is no such file and Error(kIo) when the
  // path is a folder or a device, or the system refuses.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  // As it was when it was mapped.
  const FileIdentity& identity() const { return identity_; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(data_), size_};
  }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  FileIdentity identity_ = {};
};

}  // namespace headwise
