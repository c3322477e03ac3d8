// Read-only memory maps over POSIX calls. Door: mapped_file.h.
#include "headwise/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "headwise/error.h"

namespace headwise {
namespace {

[[noreturn]] void Fail(const std::filesystem::path& path, int error) {
  const bool missing = error == ENOENT || error == ENOTDIR;
  throw Error(missing ? ErrorCode::kNotFound : ErrorCode::kIo,
              {path.string(), "a readable file", std::strerror(error), ""});
}

// Closes the descriptor on every way out; the mapping outlives it.
struct Descriptor {
  int value;
  ~Descriptor() { close(value); }
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a pipe must fail below, not wait for a writer.
  const int opened = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (opened < 0) Fail(path, errno);
  const Descriptor descriptor{opened};
  struct stat status;
  if (fstat(descriptor.value, &status) != 0) Fail(path, errno);
  if (!S_ISREG(status.st_mode)) {
    throw Error(
        ErrorCode::kIo,
        {path.string(), "a file",
         S_ISDIR(status.st_mode) ? "a folder" : "a device or pipe", ""});
  }
  size_ = static_cast<size_t>(status.st_size);
  identity_ = {static_cast<int64_t>(status.st_dev),
               static_cast<int64_t>(status.st_ino),
               status.st_size,
               status.st_mtim.tv_sec,
               status.st_mtim.tv_nsec,
               status.st_ctim.tv_sec,
               status.st_ctim.tv_nsec};
  if (size_ == 0) return;  // mmap refuses a length of 0
  void* mapped =
      mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor.value, 0);
  if (mapped == MAP_FAILED) Fail(path, errno);
  data_ = static_cast<const std::byte*>(mapped);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      identity_(other.identity_) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(identity_, other.identity_);
  return *this;
}

}  // namespace headwise
