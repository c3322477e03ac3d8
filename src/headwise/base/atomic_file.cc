// Atomic file replacement over POSIX calls. Door: atomic_file.h.
#include "headwise/base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "headwise/error.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;

// Large enough that a header written in small parts costs one system call.
constexpr size_t kBufferBytes = size_t{1} << 16;

// Unique among the threads of this process and, through the process id, among
// processes; O_EXCL catches what a crashed process with our id left behind.
fs::path TemporaryBeside(const fs::path& path) {
  static std::atomic<unsigned> counter{0};
  // Not "." + a temporary, of which g++ 12 warns (-Wrestrict) without cause.
  std::string name(".");
  name.append(path.filename().string()).append(1, '.');
  name.append(std::to_string(getpid())).append(1, '.');
  name.append(std::to_string(counter++)).append(".tmp");
  return path.parent_path() / name;
}

// Makes the new name durable. Some file systems refuse to sync a folder; the
// file itself is whole either way, so a refusal is not an error.
void SyncFolderOf(const fs::path& path) {
  const fs::path folder =
      path.has_parent_path() ? path.parent_path() : fs::path(".");
  const int descriptor =
      open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  fsync(descriptor);
  close(descriptor);
}

}  // namespace

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)) {
  std::error_code ignored;
  const fs::file_status status = fs::status(path_, ignored);
  if (!path_.has_filename() ||
      (fs::exists(status) && !fs::is_regular_file(status))) {
    throw Error(ErrorCode::kInvalidArgument,
                {"write " + path_.string(), "the name of a file",
                 path_.empty() ? "nothing" : "a folder or a device", ""});
  }
  buffer_.reserve(kBufferBytes);
  do {
    temporary_ = TemporaryBeside(path_);
    descriptor_ =
        open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) Fail("create");
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::Write(const void* data, size_t size) {
  const char* next = static_cast<const char*>(data);
  while (size > 0) {
    if (buffer_.size() == kBufferBytes) Flush();
    const size_t part = std::min(size, kBufferBytes - buffer_.size());
    buffer_.append(next, part);
    next += part;
    size -= part;
  }
}

void AtomicFile::Flush() {
  const char* next = buffer_.data();
  size_t left = buffer_.size();
  while (left > 0) {
    const ssize_t written = write(descriptor_, next, left);
    if (written < 0) {
      if (errno == EINTR) continue;
      Fail("write");
    }
    next += written;
    left -= static_cast<size_t>(written);
  }
  buffer_.clear();
}

void AtomicFile::Commit() {
  Flush();
  if (fsync(descriptor_) != 0) Fail("flush");
  if (close(std::exchange(descriptor_, -1)) != 0) Fail("close");
  if (rename(temporary_.c_str(), path_.c_str()) != 0) Fail("rename");
  temporary_.clear();
  SyncFolderOf(path_);
}

void AtomicFile::Fail(const char* action) const {
  const int error = errno;
  throw Error(
      error == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
      {"write " + path_.string(), "to " + std::string(action) + " the file",
       std::strerror(error), error == ENOENT ? "make its folder first" : ""});
}

void WriteFileAtomically(const fs::path& path, std::string_view bytes) {
  AtomicFile file(path);
  file.Write(bytes);
  file.Commit();
}

void RequireWritable(const std::filesystem::path& path) {
  if (!path.empty()) AtomicFile attempt(path);
}

}  // namespace headwise
