// Folders that appear whole or not at all: written beside the target under a
// name that nothing else has, then put in its place in one step.
#pragma once

#include <filesystem>
#include <functional>

namespace headwise {

struct AtomicFolderOptions {
  // Whether a folder that is there may be replaced: one that is empty, or that
  // holds a file `mark` and nothing but files that are `ours`.
  bool replace = false;
  std::filesystem::path mark = {};
  std::function<bool(const std::filesystem::path& file)> ours = {};
  // Swap the two names in one step; false: as where the system cannot.
  bool exchange = true;
};

// Not thread-safe. One writer of a target at a time: a second one is refused
// with Error(kIo) for as long as the first lives. Every failure throws Error
// naming the path.
//
// A symbolic link stays: the folder that it names is written. A folder that is
// replaced keeps its mode and, where that is allowed, its owner. Whoever is
// killed leaves the old folder or the new one at the target. Where the file
// system cannot swap names, the target has no name for a moment; the next
// writer then puts the old folder back.
class AtomicFolder {
 public:
  // Makes the folder to write beside the target, and removes those that writers
  // of this target left behind when they were killed. Throws
  // Error(kInvalidArgument) where the target may not be replaced, naming a file
  // that would be lost.
  explicit AtomicFolder(const std::filesystem::path& path,
                        AtomicFolderOptions options = {});
  // Removes the folder unless Commit succeeded.
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  // Where files are written until Commit. No folders within it.
  const std::filesystem::path& path() const { return temporary_; }

  // Looks at the target again, then puts the folder in its place. Files that
  // came to the old folder in between move into the new one.
  void Commit();

 private:
  void CreateTemporary();
  void Replace();
  [[noreturn]] void Fail(const char* action) const;

  std::filesystem::path target_;  // where links lead
  std::filesystem::path temporary_;
  AtomicFolderOptions options_;
  int lock_ = -1;  // on the temporary folder
};

// Throws what writing `path` would throw for what is there or for the place:
// called before long work, so that its result is not lost. Nothing for "".
void RequireWritableFolder(const std::filesystem::path& path,
                           const AtomicFolderOptions& options);

}  // namespace headwise
