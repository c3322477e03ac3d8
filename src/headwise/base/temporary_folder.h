// A folder that is gone with its maker.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "headwise/error.h"

namespace headwise {

class TemporaryFolder {
 public:
  // Throws Error(kIo) where none can be made.
  TemporaryFolder() {
    std::string name =
        (std::filesystem::temp_directory_path() / "headwise.XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      throw Error(ErrorCode::kIo, {"temporary folder", "room for one", name,
                                   "TMPDIR names another place"});
    }
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace headwise
