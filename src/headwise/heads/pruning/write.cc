// Writing a changed checkpoint. Door: remove.h.
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "headwise/base/atomic_file.h"
#include "headwise/error.h"
#include "headwise/format/safetensors.h"
#include "headwise/heads/pruning/remove.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void Fail(const fs::path& path, const std::string& found) {
  throw Error(ErrorCode::kIo, {path.string(), "to be written", found, ""});
}

// A folder beside the target that goes away unless it is put in its place.
class NewFolder {
 public:
  // "folder/" is the folder itself.
  explicit NewFolder(const fs::path& target)
      : target_(target.has_filename() ? target : target.parent_path()),
        path_(target_) {
    path_ += ".writing";
    std::error_code code;
    fs::remove_all(path_, code);
    fs::create_directories(path_, code);
    if (code) Fail(path_, code.message());
  }
  ~NewFolder() {
    std::error_code code;
    if (!placed_) fs::remove_all(path_, code);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const fs::path& path() const { return path_; }
  void Place() {
    // What is replaced goes last: whoever is killed leaves one of the two.
    fs::path old = target_;
    old += ".replaced";
    std::error_code code;
    fs::remove_all(old, code);
    if (fs::exists(target_, code)) fs::rename(target_, old, code);
    if (!code) fs::rename(path_, target_, code);
    if (code) Fail(target_, code.message());
    placed_ = true;
    fs::remove_all(old, code);
  }

 private:
  fs::path target_;
  fs::path path_;
  bool placed_ = false;
};

bool IsWeights(const fs::path& file) {
  const std::string name = file.filename().string();
  return file.extension() == ".safetensors" ||
         name == "model.safetensors.index.json";
}

// Other frameworks' weights, a training's state: of the old model.
bool StaysBehind(const fs::path& file) {
  for (const char* kind : {".bin", ".pt", ".pth", ".h5", ".msgpack", ".onnx",
                           ".gguf", ".ot", ".partial", ".lock"}) {
    if (file.extension() == kind) return true;
  }
  return file.filename() == "training.json";
}

void CopyFile(const fs::path& from, const fs::path& to) {
  std::error_code code;
  fs::copy_file(from, to, code);
  if (code) Fail(to, code.message());
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

void RequireNewFolder(const fs::path& folder, Replace replace) {
  std::error_code code;
  if (folder.empty()) return;
  if (!fs::exists(folder, code)) {
    fs::path above = fs::absolute(folder).parent_path();
    while (!fs::exists(above, code)) above = above.parent_path();
    RequireWritable(above / ".headwise");
    return;
  }
  if (replace == Replace::kRefused) {
    throw Error(ErrorCode::kInvalidArgument,
                {folder.string(), "a folder that is not there yet",
                 "one that is", "take another name, or allow to replace it"});
  }
  // Replacing is for models: nothing else is removed by mistake.
  if (!fs::exists(folder / "config.json", code) &&
      !(fs::is_directory(folder, code) && fs::is_empty(folder, code))) {
    throw Error(ErrorCode::kInvalidArgument,
                {folder.string(), "a model's folder to replace",
                 "one without config.json", ""});
  }
}

void WriteChanged(const fs::path& from, const fs::path& to,
                  const ChangedTensors& changed, const Json& config,
                  Replace replace) {
  RequireNewFolder(to, replace);
  std::error_code code;
  if (fs::equivalent(from, to, code)) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {to.string(), "another folder than the model's own", "the same", ""});
  }
  NewFolder folder(to);
  for (const auto& entry : fs::directory_iterator(from)) {
    if (!entry.is_regular_file() || StaysBehind(entry.path())) continue;
    if (!changed.empty() &&
        (IsWeights(entry.path()) || entry.path().filename() == "config.json")) {
      continue;
    }
    CopyFile(entry.path(), folder.path() / entry.path().filename());
  }
  if (!changed.empty()) {
    WriteWeights(from, folder.path(), changed);
    WriteFileAtomically(folder.path() / "config.json", config.dump(2) + "\n");
  }
  folder.Place();
}

}  // namespace headwise
