#include "headwise/base/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;

class AtomicFileTest : public ScratchFolderTest {
 protected:
  static std::string Read(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  int Entries() const {
    return static_cast<int>(std::distance(fs::directory_iterator(folder_), {}));
  }
};

TEST_F(AtomicFileTest, CommitPutsTheBytesInPlaceAndLeavesNothingElse) {
  const fs::path path = folder_ / "out";
  const std::string large(200'000, 'x');
  AtomicFile file(path);
  file.Write("head\0er", 7);
  file.Write(large);
  EXPECT_FALSE(fs::exists(path));
  file.Commit();
  EXPECT_EQ(Read(path), std::string("head\0er", 7) + large);
  EXPECT_EQ(Entries(), 1);
}

TEST_F(AtomicFileTest, WithoutCommitTheOldFileStays) {
  const fs::path path = folder_ / "out";
  WriteFileAtomically(path, "old");
  {
    AtomicFile file(path);
    file.Write("new");
    EXPECT_EQ(Entries(), 2);
  }
  EXPECT_EQ(Read(path), "old");
  EXPECT_EQ(Entries(), 1);
}

TEST_F(AtomicFileTest, ReplacesAnExistingFile) {
  const fs::path path = folder_ / "out";
  WriteFileAtomically(path, "a longer old text");
  WriteFileAtomically(path, "new");
  EXPECT_EQ(Read(path), "new");
}

TEST_F(AtomicFileTest, TwoWritersOfOnePathDoNotDisturbEachOther) {
  const fs::path path = folder_ / "out";
  AtomicFile first(path);
  AtomicFile second(path);
  first.Write("first");
  second.Write("second");
  first.Commit();
  EXPECT_EQ(Read(path), "first");
  second.Commit();
  EXPECT_EQ(Read(path), "second");
  EXPECT_EQ(Entries(), 1);
}

TEST_F(AtomicFileTest, NamesThePathWhenTheFolderIsMissing) {
  try {
    AtomicFile file(folder_ / "missing" / "out");
    FAIL() << "opened a file in a folder that is not there";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(error.what(), testing::HasSubstr("missing/out"));
  }
}

TEST_F(AtomicFileTest, RefusesFoldersAndDevices) {
  for (const fs::path& path : {folder_, fs::path("/dev/null"), fs::path()}) {
    try {
      WriteFileAtomically(path, "x");
      FAIL() << "wrote " << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << path;
    }
  }
}

TEST_F(AtomicFileTest, AFailedRenameRemovesTheTemporaryFile) {
  const fs::path path = folder_ / "out";
  {
    AtomicFile file(path);
    file.Write("x");
    fs::create_directory(path);
    EXPECT_THROW(file.Commit(), Error);
  }
  EXPECT_EQ(Entries(), 1);
  EXPECT_TRUE(fs::is_directory(path));
}

}  // namespace
}  // namespace headwise
