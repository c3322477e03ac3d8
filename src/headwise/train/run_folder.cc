// Making and locking folders. Door: run_folder.h.
#include "headwise/train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "headwise/error.h"
#include "headwise/train/checkpoints.h"

namespace headwise {
namespace {

using Path = std::filesystem::path;

// "" or the name of a file of a model.
std::string ModelFile(const Path& folder) {
  std::error_code ignored;
  for (const char* name :
       {"model.safetensors", "model.safetensors.index.json", "config.json"}) {
    if (std::filesystem::exists(folder / name, ignored)) return name;
  }
  return "";
}

}  // namespace

RunFolder::RunFolder(const Path& path) : path_(path) {
  std::error_code code;
  for (Path at = path; !at.empty() && !std::filesystem::exists(at, code);
       at = at.parent_path()) {
    made_.push_back(at);
    if (at == at.parent_path()) break;
  }
  std::filesystem::create_directories(path, code);
  if (code) {
    throw Error(ErrorCode::kIo,
                {path.string(), "a folder that can be made", code.message(),
                 "check its name and its rights"});
  }
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // File systems without locks (some network ones) do without.
  if (descriptor_ < 0 || ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 ||
      errno != EWOULDBLOCK) {
    return;
  }
  ::close(descriptor_);
  throw Error(ErrorCode::kInvalidArgument,
              {path.string(), "one run at a time", "another one at work in it",
               "wait for it, or name another folder"});
}

RunFolder::~RunFolder() {
  std::error_code stays;
  for (const Path& path : made_) std::filesystem::remove(path, stays);
  if (descriptor_ >= 0) ::close(descriptor_);
}

void RunFolder::RequireNew() const {
  const auto checkpoint = NewestCheckpoint(path_);
  const std::string model = ModelFile(path_);
  if (!checkpoint && model.empty()) return;
  throw Error(ErrorCode::kInvalidArgument,
              {path_.string(), "a folder without a run or a model",
               checkpoint ? checkpoint->filename().string() + " of a run"
                          : model + " of a model",
               checkpoint ? "resume it, name another folder, or replace it"
                          : "name another folder, or replace it"});
}

void RunFolder::RequireRun() const {
  const std::string model = ModelFile(path_);
  if (model.empty() || NewestCheckpoint(path_)) return;
  throw Error(
      ErrorCode::kInvalidArgument,
      {path_.string(), "checkpoints of a run to resume",
       model + " of a model, and none", "name another folder, or replace it"});
}

}  // namespace headwise
