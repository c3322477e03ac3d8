// Atomic file replacement over POSIX calls. Door: atomic_file.h.
#include "headwise/base/atomic_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>

#include "headwise/error.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;

// Large enough that a header written in small parts costs one system call.
constexpr size_t kBufferBytes = size_t{1} << 16;
constexpr int kMostLinks = 40;  // as the system itself follows
constexpr mode_t kPermissions = 07777;
constexpr const char* kEnding = ".tmp";

// The descriptor that a path like /proc/self/fd/1 stands for.
std::optional<int> DescriptorOf(const fs::path& path) {
  for (const char* folder : {"/proc/self/fd/", "/dev/fd/"}) {
    const std::string name = path.string();
    if (!name.starts_with(folder)) continue;
    int number = -1;
    const char* end = name.data() + name.size();
    const auto [rest, error] =
        std::from_chars(name.data() + std::strlen(folder), end, number);
    if (error == std::errc() && rest == end && number >= 0) return number;
  }
  return {};
}

// ".NAME.": temporary files of one target begin so.
std::string TemporaryStart(const fs::path& target) {
  // Not "." + a temporary, of which g++ 12 warns (-Wrestrict) without cause.
  std::string name(".");
  return name.append(target.filename().string()).append(1, '.');
}

// Unique among the threads of this process and, through the process id, among
// processes; O_EXCL catches what a crashed process with our id left behind.
fs::path TemporaryBeside(const fs::path& target) {
  static std::atomic<unsigned> counter{0};
  std::string name = TemporaryStart(target);
  name.append(std::to_string(getpid())).append(1, '.');
  name.append(std::to_string(counter++)).append(kEnding);
  return target.parent_path() / name;
}

fs::path FolderOf(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// "PID.COUNT.tmp" behind the start
bool EndsAsTemporary(std::string_view rest) {
  if (!rest.ends_with(kEnding)) return false;
  rest.remove_suffix(std::strlen(kEnding));
  return std::count(rest.begin(), rest.end(), '.') == 1 &&
         rest.find_first_not_of("0123456789.") == rest.npos;
}

// A writer holds a lock on its temporary file, which ends with its process: one
// that can be locked belongs to nobody any more.
void RemoveAbandoned(const fs::path& target) {
  const std::string start = TemporaryStart(target);
  std::error_code code;
  for (fs::directory_iterator at(FolderOf(target), code), end;
       !code && at != end; at.increment(code)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(start) ||
        !EndsAsTemporary(std::string_view(name).substr(start.size()))) {
      continue;
    }
    const int descriptor = open(at->path().c_str(),
                                O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) continue;
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) unlink(at->path().c_str());
    close(descriptor);
  }
}

// Makes the new name durable. Some file systems refuse to sync a folder; the
// file itself is whole either way, so a refusal is not an error.
void SyncFolderOf(const fs::path& path) {
  const int descriptor =
      open(FolderOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  fsync(descriptor);
  close(descriptor);
}

}  // namespace

fs::path FollowLinks(fs::path path) {
  std::error_code ignored;
  for (int i = 0; i < kMostLinks && !DescriptorOf(path); ++i) {
    if (!fs::is_symlink(fs::symlink_status(path, ignored))) break;
    const fs::path next = fs::read_symlink(path, ignored);
    if (ignored) break;
    path = path.parent_path() / next;  // an absolute one takes its place
  }
  return path;
}

AtomicFile::AtomicFile(fs::path path)
    : path_(std::move(path)), target_(FollowLinks(path_)) {
  struct stat status;
  const bool there = stat(target_.c_str(), &status) == 0;
  if (!path_.has_filename() || (there && S_ISDIR(status.st_mode))) {
    throw Error(ErrorCode::kInvalidArgument,
                {"write " + path_.string(), "the name of a file",
                 path_.empty() ? "nothing" : "a folder", "name a file in it"});
  }
  buffer_.reserve(kBufferBytes);
  replaces_ = !DescriptorOf(target_) && (!there || S_ISREG(status.st_mode));
  if (replaces_) {
    CreateTemporary();
  } else if (!DescriptorOf(target_) && access(target_.c_str(), W_OK) != 0) {
    Fail("open");
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::CreateTemporary() {
  RemoveAbandoned(target_);
  struct stat old, made;
  const bool there = stat(target_.c_str(), &old) == 0;
  const mode_t mode = there ? old.st_mode & 0777 : 0666;
  while (descriptor_ < 0) {
    const fs::path name = TemporaryBeside(target_);
    descriptor_ =
        open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (descriptor_ < 0 && errno == EEXIST) continue;
    if (descriptor_ < 0) Fail("create");
    temporary_ = name;
    flock(descriptor_, LOCK_EX);
    if (fstat(descriptor_, &made) != 0) Fail("create");
    // Another writer took it for abandoned before it was locked.
    if (made.st_nlink == 0) close(std::exchange(descriptor_, -1));
  }
  if (!there) return;
  // Refused for another's file: then it becomes ours, as a new one would.
  const bool same = old.st_uid == made.st_uid && old.st_gid == made.st_gid;
  if (!same && fchown(descriptor_, old.st_uid, old.st_gid) != 0) return;
  fchmod(descriptor_, old.st_mode & kPermissions);
}

void AtomicFile::OpenAsItStands() {
  const std::optional<int> number = DescriptorOf(target_);
  // A copy of the descriptor writes where its other writers stand.
  descriptor_ = number ? fcntl(*number, F_DUPFD_CLOEXEC, 0)
                       : open(target_.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor_ < 0) Fail("open");
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
  if (descriptor_ < 0) OpenAsItStands();
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
  if (replaces_ && fsync(descriptor_) != 0) Fail("flush");
  // The lock ends with the rename, not before it.
  if (replaces_ && rename(temporary_.c_str(), target_.c_str()) != 0) {
    Fail("rename");
  }
  temporary_.clear();
  if (close(std::exchange(descriptor_, -1)) != 0) Fail("close");
  if (replaces_) SyncFolderOf(target_);
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
