// The folder of a training run as one run's alone: made, locked against
// others, and not begun over what somebody keeps there.
#pragma once

#include <filesystem>
#include <vector>

namespace headwise {

class RunFolder {
 public:
  // Makes the folder with those above it and locks it. Throws Error: kIo where
  // it cannot be made, kInvalidArgument where another run is at work in it.
  explicit RunFolder(const std::filesystem::path& path);
  // Folders that were made here leave again while they are empty: a run that
  // is refused leaves nothing.
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  // Throws Error(kInvalidArgument) where the folder has checkpoints or a model
  // that a new run would replace.
  void RequireNew() const;
  // The same for a run to be continued: a model without checkpoints is
  // somebody's, not a run's.
  void RequireRun() const;

 private:
  std::filesystem::path path_;
  std::vector<std::filesystem::path> made_;  // innermost first
  int descriptor_ = -1;
};

}  // namespace headwise
