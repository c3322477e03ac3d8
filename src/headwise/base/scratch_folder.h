// A folder of its own for every test, removed afterwards. Test only.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace headwise {

class ScratchFolderTest : public testing::Test {
 protected:
  ~ScratchFolderTest() override { std::filesystem::remove_all(folder_); }

  const std::filesystem::path folder_ = Made();

 private:
  static std::filesystem::path Made() {
    std::string name =
        (std::filesystem::temp_directory_path() / "headwise.XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error(name);
    return name;
  }
};

}  // namespace headwise
