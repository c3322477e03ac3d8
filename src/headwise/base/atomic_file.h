// Files that appear whole or not at all: a temporary file beside the target,
// written, flushed to the disk, then renamed over it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace headwise {

// Not thread-safe; two writers of one path do not disturb each other, the last
// Commit wins. Every failure throws Error(kIo) naming the path.
//
// A symbolic link stays: what it names is written. A file that is replaced
// keeps its mode and, where that is allowed, its owner. What is no file but can
// be written (a pipe, a terminal, a device, /dev/stdout whatever it is) is
// written as it stands, from the first byte that does not fit the buffer on.
class AtomicFile {
 public:
  // Opens the temporary file in the folder of what `path` names, so that the
  // rename stays within one file system, and removes those that writers of this
  // path left behind when they were killed. A folder is refused with
  // Error(kInvalidArgument).
  explicit AtomicFile(std::filesystem::path path);
  // Removes the temporary file unless Commit succeeded.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void Write(const void* data, size_t size);
  void Write(std::string_view bytes) { Write(bytes.data(), bytes.size()); }

  // Flushes, then puts the file in place. Nothing may be written afterwards.
  void Commit();

  const std::filesystem::path& path() const { return path_; }

 private:
  [[noreturn]] void Fail(const char* action) const;
  void CreateTemporary();
  void OpenAsItStands();
  void Flush();

  std::filesystem::path path_;    // as it was given
  std::filesystem::path target_;  // where its links lead
  std::filesystem::path temporary_;
  std::string buffer_;
  int descriptor_ = -1;
  bool replaces_ = true;  // false: written as it stands
};

// Writes `bytes` as the whole content of `path`.
void WriteFileAtomically(const std::filesystem::path& path,
                         std::string_view bytes);

// Where the links at the end of a path lead, there or not.
std::filesystem::path FollowLinks(std::filesystem::path path);

// Throws what writing `path` would throw for its folder or for what is there:
// called before long work, so that its result is not lost. Nothing for "".
void RequireWritable(const std::filesystem::path& path);

}  // namespace headwise
