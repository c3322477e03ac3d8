// Atomic replacement of folders over POSIX calls. Door: atomic_folder.h.
//
// Beside the target NAME, while it is written: .NAME.PID.COUNT.new, locked by
// its writer. Where names cannot be swapped, for a moment: .NAME.PID.COUNT.old,
// the folder that is replaced. The lock on the folder above lasts for a look
// and a step, not for the writing.
#include "headwise/base/atomic_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "headwise/base/atomic_file.h"
#include "headwise/error.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNewFolder = ".new";
constexpr const char* kOldFolder = ".old";
constexpr mode_t kFolderPermissions = 07777;

// A folder opened for a lock; closed, and so unlocked, at the end.
class OpenFolder {
 public:
  explicit OpenFolder(const fs::path& path)
      : descriptor_(open(path.c_str(),
                         O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) {}
  ~OpenFolder() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  OpenFolder(const OpenFolder&) = delete;
  OpenFolder& operator=(const OpenFolder&) = delete;

  int descriptor() const { return descriptor_; }
  // Waits. A file system without such locks does without.
  void Lock() const {
    while (flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  // Whether a living writer holds it.
  bool IsHeld() const {
    return flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  }
  int Release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

bool IsThere(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

// The folder that a path names, with a name of its own at the end: "a/", "."
// and links are what they lead to.
fs::path TargetOf(const fs::path& path) {
  std::error_code code;
  if (fs::path real = fs::canonical(path, code); !code) return real;
  fs::path target = FollowLinks(fs::absolute(path).lexically_normal());
  if (!target.has_filename()) target = target.parent_path();
  const fs::path above = fs::weakly_canonical(target.parent_path(), code);
  return code ? target : above / target.filename();
}

std::string HiddenStart(const fs::path& target) {
  std::string name(".");
  return name.append(target.filename().string()).append(1, '.');
}

fs::path NewNameBeside(const fs::path& target) {
  static std::atomic<unsigned> counter{0};
  std::string name = HiddenStart(target);
  name.append(std::to_string(getpid())).append(1, '.');
  name.append(std::to_string(counter++)).append(kNewFolder);
  return target.parent_path() / name;
}

// "PID.COUNT" and this ending behind the start.
bool EndsAsHidden(std::string_view rest, std::string_view ending) {
  if (!rest.ends_with(ending)) return false;
  rest.remove_suffix(ending.size());
  return std::count(rest.begin(), rest.end(), '.') == 1 &&
         rest.find_first_not_of("0123456789.") == rest.npos;
}

std::vector<fs::path> HiddenBeside(const fs::path& target,
                                   std::string_view ending) {
  const std::string start = HiddenStart(target);
  std::vector<fs::path> found;
  std::error_code code;
  for (fs::directory_iterator at(target.parent_path(), code), end;
       !code && at != end; at.increment(code)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(start) &&
        EndsAsHidden(std::string_view(name).substr(start.size()), ending)) {
      found.push_back(at->path());
    }
  }
  return found;
}

// Of a folder that a writer made. Folders within it are not a writer's, and
// stay with it.
void RemoveFolder(const fs::path& folder) {
  std::error_code ignored;
  for (fs::directory_iterator at(folder, ignored), end; !ignored && at != end;
       at.increment(ignored)) {
    unlink(at->path().c_str());
  }
  rmdir(folder.c_str());
}

// What a replaced folder held and was not ours joins the new one.
void RemoveReplaced(const fs::path& old, const fs::path& target,
                    const AtomicFolderOptions& options) {
  std::error_code ignored;
  for (fs::directory_iterator at(old, ignored), end; !ignored && at != end;
       at.increment(ignored)) {
    const bool folder = fs::is_directory(at->symlink_status(ignored));
    if (!folder && options.ours && options.ours(at->path())) {
      unlink(at->path().c_str());
    } else {
      const fs::path to = target / at->path().filename();
      renameat2(AT_FDCWD, at->path().c_str(), AT_FDCWD, to.c_str(),
                RENAME_NOREPLACE);
    }
  }
  rmdir(old.c_str());
}

[[noreturn]] void RefuseTarget(const fs::path& target,
                               const std::string& expected,
                               const std::string& found,
                               const std::string& hint) {
  throw Error(ErrorCode::kInvalidArgument,
              {target.string(), expected, found, hint});
}

// The first of its entries, by name, that replacing would lose; "": none.
std::string FirstForeign(const fs::path& folder,
                         const AtomicFolderOptions& options) {
  std::string first;
  std::error_code code;
  for (fs::directory_iterator at(folder, code), end; !code && at != end;
       at.increment(code)) {
    const bool ours = !fs::is_directory(at->symlink_status(code)) &&
                      options.ours && options.ours(at->path());
    std::string name = at->path().filename().string();
    if (!ours && (first.empty() || name < first)) first = std::move(name);
  }
  if (code) {
    throw Error(ErrorCode::kIo, {folder.string(), "a folder that can be read",
                                 code.message(), ""});
  }
  return first;
}

void RequireReplaceable(const fs::path& target,
                        const AtomicFolderOptions& options) {
  if (!IsThere(target)) return;
  std::error_code code;
  if (!fs::is_directory(target, code)) {
    RefuseTarget(target, "the name of a folder", "what is none", "");
  }
  if (!options.replace) {
    RefuseTarget(target, "a folder that is not there yet", "one that is",
                 "take another name, or allow to replace it");
  }
  const std::string foreign = FirstForeign(target, options);
  if (!fs::is_empty(target, code) && !IsThere(target / options.mark)) {
    RefuseTarget(target, "a folder to replace with " + options.mark.string(),
                 "one without " + options.mark.string(), "take another name");
  }
  if (foreign.empty()) return;
  RefuseTarget(target, "a folder to replace with nothing of others in it",
               foreign, "move it away, or take another name");
}

bool IsOwn(const fs::path& folder) {
  struct stat status;
  return geteuid() == 0 ||
         (lstat(folder.c_str(), &status) == 0 && status.st_uid == geteuid());
}

// Under the lock of the folder above: what killed writers left goes, a folder
// that lost its name gets it back, and a living writer is an error.
void TidyBeside(const fs::path& target, const AtomicFolderOptions& options) {
  for (const fs::path& folder : HiddenBeside(target, kNewFolder)) {
    const OpenFolder other(folder);
    if (other.descriptor() < 0) continue;
    if (other.IsHeld()) {
      throw Error(ErrorCode::kIo,
                  {target.string(), "one writer of the folder at a time",
                   "another one at work in " + folder.filename().string(),
                   "wait for its end, or take another name"});
    }
    RemoveFolder(folder);
  }
  for (const fs::path& folder : HiddenBeside(target, kOldFolder)) {
    if (!IsThere(target) && IsOwn(folder)) {
      rename(folder.c_str(), target.c_str());
    } else if (IsThere(target)) {
      RemoveReplaced(folder, target, options);
    }
  }
}

}  // namespace

AtomicFolder::AtomicFolder(const fs::path& path, AtomicFolderOptions options)
    : target_(TargetOf(path)), options_(std::move(options)) {
  if (path.empty() || !target_.has_filename()) {
    RefuseTarget(path, "the name of a folder", path.empty() ? "none" : "/", "");
  }
  std::error_code code;
  fs::create_directories(target_.parent_path(), code);
  if (code) {
    throw Error(ErrorCode::kIo, {target_.string(), "to make the folder above",
                                 code.message(), ""});
  }
  const OpenFolder above(target_.parent_path());
  above.Lock();
  TidyBeside(target_, options_);
  RequireReplaceable(target_, options_);
  CreateTemporary();
}

AtomicFolder::~AtomicFolder() {
  if (!temporary_.empty()) RemoveFolder(temporary_);
  if (lock_ >= 0) close(lock_);
}

void AtomicFolder::CreateTemporary() {
  struct stat old, made;
  const bool there = stat(target_.c_str(), &old) == 0;
  // Closed from the beginning where the old one is.
  const mode_t mode = there ? old.st_mode & 0777 : 0777;
  fs::path name = NewNameBeside(target_);
  while (mkdir(name.c_str(), mode) != 0) {
    if (errno != EEXIST) Fail("create");
    name = NewNameBeside(target_);
  }
  temporary_ = name;
  OpenFolder folder(name);
  if (folder.descriptor() < 0 || fstat(folder.descriptor(), &made) != 0) {
    Fail("open");
  }
  folder.Lock();
  lock_ = folder.Release();
  if (!there) return;
  // Refused for another's folder: then it becomes ours, as a new one would.
  const bool same = old.st_uid == made.st_uid && old.st_gid == made.st_gid;
  if (!same && fchown(lock_, old.st_uid, old.st_gid) != 0) return;
  fchmod(lock_, old.st_mode & kFolderPermissions);
}

void AtomicFolder::Commit() {
  fsync(lock_);  // where it is refused the folder is whole all the same
  const OpenFolder above(target_.parent_path());
  above.Lock();
  RequireReplaceable(target_, options_);
  if (IsThere(target_)) {
    Replace();
  } else if (rename(temporary_.c_str(), target_.c_str()) != 0) {
    Fail("rename");
  }
  temporary_.clear();
  fsync(above.descriptor());
}

void AtomicFolder::Replace() {
  fs::path old = temporary_;
  const bool swapped =
      options_.exchange && renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD,
                                     target_.c_str(), RENAME_EXCHANGE) == 0;
  if (!swapped) {
    const bool unknown = !options_.exchange || errno == EINVAL ||
                         errno == ENOSYS || errno == EOPNOTSUPP;
    if (!unknown) Fail("exchange");
    old.replace_extension(kOldFolder);
    if (rename(target_.c_str(), old.c_str()) != 0) Fail("rename");
    if (rename(temporary_.c_str(), target_.c_str()) != 0) {
      const int error = errno;
      rename(old.c_str(), target_.c_str());
      errno = error;
      Fail("rename");
    }
  }
  RemoveReplaced(old, target_, options_);
}

void AtomicFolder::Fail(const char* action) const {
  const int error = errno;
  throw Error(
      ErrorCode::kIo,
      {"write " + target_.string(), "to " + std::string(action) + " the folder",
       std::strerror(error),
       error == EBUSY ? "a mount point stays: take a folder in it" : ""});
}

void RequireWritableFolder(const fs::path& path,
                           const AtomicFolderOptions& options) {
  if (path.empty()) return;
  fs::path above = TargetOf(path).parent_path();
  if (IsThere(above)) {
    const AtomicFolder attempt(path, options);
    return;
  }
  // Folders are made by who writes, not by who asks.
  while (!IsThere(above)) above = above.parent_path();
  RequireWritable(above / ".headwise");
}

}  // namespace headwise
