#include "headwise/base/atomic_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"

namespace headwise::atomic_file_test {
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

TEST_F(AtomicFileTest, RefusesFolders) {
  for (const fs::path& path : {folder_, fs::path()}) {
    try {
      WriteFileAtomically(path, "x");
      FAIL() << "wrote " << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << path;
    }
  }
}

TEST_F(AtomicFileTest, WritesDevicesAndPipesAsTheyStand) {
  WriteFileAtomically("/dev/null", "x");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  RequireWritable("/dev/fd/" + std::to_string(ends[1]));
  WriteFileAtomically("/dev/fd/" + std::to_string(ends[1]), "through");
  close(ends[1]);
  char read_back[16] = {};
  EXPECT_EQ(read(ends[0], read_back, sizeof(read_back)), 7);
  EXPECT_STREQ(read_back, "through");
  close(ends[0]);
  EXPECT_EQ(Entries(), 0);
}

// `--out /dev/stdout >file`: what else goes to that file stays in it.
TEST_F(AtomicFileTest, WritesAnOpenDescriptorBehindWhatWasWrittenToIt) {
  const fs::path path = folder_ / "out", link = folder_ / "link";
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT, 0644);
  fs::create_symlink("/proc/self/fd/" + std::to_string(descriptor), link);
  ASSERT_EQ(write(descriptor, "before ", 7), 7);
  WriteFileAtomically(link, "whole");
  ASSERT_EQ(write(descriptor, " after", 6), 6);
  close(descriptor);
  EXPECT_EQ(Read(path), "before whole after");
  EXPECT_TRUE(fs::is_symlink(link));
}

TEST_F(AtomicFileTest, FollowsLinks) {
  fs::create_directory(folder_ / "there");
  fs::create_symlink("there/target", folder_ / "second");
  fs::create_symlink("second", folder_ / "first");
  for (const char* text : {"new", "changed"}) {  // a dangling link, then not
    WriteFileAtomically(folder_ / "first", text);
    EXPECT_TRUE(fs::is_symlink(folder_ / "first"));
    EXPECT_TRUE(fs::is_symlink(folder_ / "second"));
    EXPECT_EQ(Read(folder_ / "there/target"), text);
  }
  EXPECT_EQ(Entries(), 3);
}

TEST_F(AtomicFileTest, KeepsTheModeOfWhatItReplaces) {
  for (const mode_t mode : {0600, 0755, 0666}) {
    const fs::path path = folder_ / std::to_string(mode);
    WriteFileAtomically(path, "old");
    chmod(path.c_str(), mode);
    WriteFileAtomically(path, "new");
    struct stat status;
    ASSERT_EQ(stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, mode);
    EXPECT_EQ(Read(path), "new");
  }
}

TEST_F(AtomicFileTest, RemovesWhatKilledWritersLeft) {
  const fs::path path = folder_ / "out";
  const fs::path left = folder_ / ".out.4000000.7.tmp";
  const fs::path held = folder_ / ".out.4000001.0.tmp";
  const fs::path others[] = {folder_ / ".out.txt.4000000.7.tmp",
                             folder_ / ".out.notes.tmp", folder_ / "out.tmp"};
  for (const fs::path& file : {left, held, others[0], others[1], others[2]}) {
    std::ofstream(file) << "half";
  }
  const int writer = open(held.c_str(), O_WRONLY);
  ASSERT_EQ(flock(writer, LOCK_EX), 0);  // as one that is at work
  WriteFileAtomically(path, "whole");
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(held));
  for (const fs::path& other : others) EXPECT_TRUE(fs::exists(other)) << other;
  close(writer);
  WriteFileAtomically(path, "again");
  EXPECT_FALSE(fs::exists(held));
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
}  // namespace headwise::atomic_file_test
