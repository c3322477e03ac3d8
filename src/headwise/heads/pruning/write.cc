// Writing a changed checkpoint. Door: remove.h.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "headwise/base/atomic_file.h"
#include "headwise/base/atomic_folder.h"
#include "headwise/base/mapped_file.h"
#include "headwise/error.h"
#include "headwise/format/safetensors.h"
#include "headwise/heads/pruning/remove.h"
#include "headwise/model/model_files.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void FailToCopy(const fs::path& path, int error) {
  throw Error(ErrorCode::kIo, {path.string(), "a file that can be copied",
                               std::strerror(error), ""});
}

// A descriptor that is closed at the end.
class Descriptor {
 public:
  Descriptor(const fs::path& path, int flags, mode_t mode = 0)
      : path_(path), number_(open(path.c_str(), flags | O_CLOEXEC, mode)) {
    if (number_ < 0) FailToCopy(path_, errno);
  }
  ~Descriptor() { close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }
  struct stat Status() const {
    struct stat status;
    if (fstat(number_, &status) != 0) FailToCopy(path_, errno);
    return status;
  }

 private:
  fs::path path_;
  int number_;
};

// By the kernel where it can; what is copied is the file that was opened.
void CopyBytes(const fs::path& path, int from, int to) {
  constexpr size_t kAtATime = size_t{1} << 30;
  bool by_kernel = true;
  std::vector<char> buffer;
  for (;;) {
    ssize_t count =
        by_kernel ? copy_file_range(from, nullptr, to, nullptr, kAtATime, 0)
                  : read(from, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && by_kernel) {
      by_kernel = false;
      buffer.resize(size_t{1} << 20);
      continue;
    }
    if (count < 0) FailToCopy(path, errno);
    if (count == 0) return;
    for (ssize_t at = 0; !by_kernel && at < count;) {
      const ssize_t written = write(to, buffer.data() + at, count - at);
      if (written < 0 && errno != EINTR) FailToCopy(path, errno);
      at += std::max<ssize_t>(written, 0);
    }
  }
}

// With the permissions of the file, less what new files may not have.
void CopyFile(const fs::path& from, const fs::path& to) {
  const Descriptor source(from, O_RDONLY | O_NONBLOCK);
  const struct stat status = source.Status();
  if (!S_ISREG(status.st_mode)) FailToCopy(from, EINVAL);
  const Descriptor copy(to, O_WRONLY | O_CREAT | O_EXCL, status.st_mode & 0777);
  CopyBytes(to, source.number(), copy.number());
  if (fsync(copy.number()) != 0) FailToCopy(to, errno);
}

bool SameBytes(const fs::path& a, const fs::path& b) {
  std::error_code code;
  return fs::is_regular_file(a, code) && fs::is_regular_file(b, code) &&
         MappedFile(a).text() == MappedFile(b).text();
}

// A folder that is replaced may hold a model's files and nothing else. What
// people write (README.md) is theirs unless the new folder has the same.
AtomicFolderOptions ModelFolder(const fs::path& from, Replace replace) {
  AtomicFolderOptions options;
  options.replace = replace == Replace::kAllowed;
  options.mark = "config.json";
  options.ours = [from](const fs::path& file) {
    return IsModelFile(file) &&
           (!IsProse(file) || SameBytes(file, from / file.filename()));
  };
  return options;
}

[[noreturn]] void RefuseToReplaceModel(const fs::path& to,
                                       const std::string& found) {
  throw Error(ErrorCode::kInvalidArgument,
              {to.string(), "another folder than the model's own", found,
               "the model would be lost: take another name"});
}

// Neither the model that is read nor what its links lead to is replaced.
void RequireElsewhere(const fs::path& from, const fs::path& to) {
  std::error_code code;
  const fs::path home = fs::canonical(from, code);
  if (code) return;  // no model: told by who opens it
  const fs::path target = fs::canonical(to, code);
  if (code) return;  // not there
  const auto within = [&](const fs::path& path) {
    return std::mismatch(target.begin(), target.end(), path.begin(), path.end())
               .first == target.end();
  };
  if (target == home) RefuseToReplaceModel(to, "the same");
  if (within(home)) RefuseToReplaceModel(to, "one that holds it");
  for (fs::directory_iterator at(home, code), end; !code && at != end;
       at.increment(code)) {
    std::error_code none;
    const fs::path real = fs::canonical(at->path(), none);
    if (none || !IsModelFile(at->path()) || !within(real)) continue;
    RefuseToReplaceModel(to, "one with " + real.filename().string() +
                                 ", which the model links to");
  }
}

void WriteWeights(const fs::path& from, const fs::path& to,
                  const ChangedTensors& changed) {
  const Safetensors file = Safetensors::Open(from);
  std::vector<NamedTensor> tensors;
  for (const auto& [name, view] : file.tensors()) {
    if (!changed.contains(name)) tensors.push_back({name, view});
  }
  for (const auto& [name, tensor] : changed) {
    tensors.push_back({name, tensor.view()});
  }
  WriteSafetensors(to / "model.safetensors", std::move(tensors),
                   file.metadata());
}

}  // namespace

void RequireNewFolder(const fs::path& folder, Replace replace,
                      const fs::path& from) {
  if (folder.empty()) return;
  RequireElsewhere(from, folder);
  RequireWritableFolder(folder, ModelFolder(from, replace));
  std::error_code code;
  if (fs::is_directory(from, code)) FilesBeside(from);
}

std::unique_ptr<AtomicFolder> WriteBeside(const fs::path& from,
                                          const fs::path& to,
                                          const ChangedTensors& changed,
                                          const Json& config, Replace replace) {
  RequireElsewhere(from, to);
  auto folder = std::make_unique<AtomicFolder>(to, ModelFolder(from, replace));
  std::vector<fs::path> copied = FilesBeside(from);
  if (changed.empty()) {
    copied.push_back(from / "config.json");
    std::ranges::copy(WeightFiles(from), std::back_inserter(copied));
  }
  for (const fs::path& file : copied) {
    CopyFile(file, folder->path() / file.filename());
  }
  if (!changed.empty()) {
    WriteWeights(from, folder->path(), changed);
    WriteFileAtomically(folder->path() / "config.json", config.dump(2) + "\n");
  }
  return folder;
}

void WriteChanged(const fs::path& from, const fs::path& to,
                  const ChangedTensors& changed, const Json& config,
                  Replace replace) {
  WriteBeside(from, to, changed, config, replace)->Commit();
}

}  // namespace headwise
