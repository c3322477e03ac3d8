// A folder of its own for every test, removed afterwards. Test only.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>

#include "headwise/base/temporary_folder.h"

namespace headwise {

class ScratchFolderTest : public testing::Test {
 private:
  const TemporaryFolder made_;

 protected:
  const std::filesystem::path folder_ = made_.path();
};

}  // namespace headwise
