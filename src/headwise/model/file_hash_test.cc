#include "headwise/model/file_hash.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "headwise/base/scratch_folder.h"

namespace headwise::file_hash_test {
namespace {

class FileHashTest : public ScratchFolderTest {
 protected:
  std::filesystem::path Write(const char* name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  static std::string HashOf(std::vector<std::filesystem::path> files) {
    return HashFiles(files);
  }
};

TEST_F(FileHashTest, CountsContentAndOrderAndNoNames) {
  const auto one = Write("one", "a text"), same = Write("same", "a text");
  const auto other = Write("other", "a test"), empty = Write("empty", "");
  EXPECT_EQ(HashOf({one}), HashOf({same}));
  EXPECT_EQ(HashOf({one}).find("1 file, 6 bytes, hash "), 0u);
  EXPECT_NE(HashOf({one}), HashOf({other}));
  EXPECT_NE(HashOf({one, other}), HashOf({other, one}));
  EXPECT_NE(HashOf({one}), HashOf({one, empty}));
}

// Holes cost no disk.
TEST_F(FileHashTest, OfALargeFileTheSizeAndBothEndsCount) {
  constexpr uint64_t kLarge = uint64_t{100} << 20;
  const auto large = Write("large", "");
  std::filesystem::resize_file(large, kLarge);
  const std::string zeros = HashOf({large});
  std::filesystem::resize_file(large, kLarge - 1);
  EXPECT_NE(HashOf({large}), zeros);
  for (const uint64_t at : {uint64_t{0}, kLarge - 1}) {
    std::filesystem::resize_file(large, 0);
    std::filesystem::resize_file(large, kLarge);
    EXPECT_EQ(HashOf({large}), zeros);
    std::fstream file(large, std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(at));
    file.put('x');
    file.close();
    EXPECT_NE(HashOf({large}), zeros) << at;
  }
}

}  // namespace
}  // namespace headwise::file_hash_test
