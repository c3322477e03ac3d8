#include "headwise/base/atomic_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>

#include "headwise/base/atomic_file.h"
#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"

namespace headwise::atomic_folder_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

AtomicFolderOptions Replacing(bool exchange = true) {
  return {.replace = true,
          .mark = "mark",
          .ours =
              [](const fs::path& file) {
                return file.filename() == "mark" || file.filename() == "data";
              },
          .exchange = exchange};
}

void Put(const fs::path& file, const std::string& text) {
  std::ofstream(file) << text;
}

// Two files that belong together.
void WriteBoth(const fs::path& folder, const std::string& text) {
  Put(folder / "mark", text);
  Put(folder / "data", text);
}

class AtomicFolderTest : public ScratchFolderTest {
 protected:
  const fs::path out_ = folder_ / "out";

  static std::string Read(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void Write(const std::string& text, bool exchange = true) const {
    AtomicFolder folder(out_, Replacing(exchange));
    WriteBoth(folder.path(), text);
    folder.Commit();
  }
  static std::string ErrorOf(const fs::path& path,
                             AtomicFolderOptions options = Replacing()) {
    try {
      const AtomicFolder folder(path, std::move(options));
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  // What a writer leaves that is killed before Commit.
  void LeaveBehind() const {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const AtomicFolder folder(out_, Replacing());
      WriteBoth(folder.path(), "half");
      _exit(0);
    }
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
  }
  int Entries() const {
    return static_cast<int>(std::distance(fs::directory_iterator(folder_), {}));
  }
};

TEST_F(AtomicFolderTest, AppearsWhole) {
  AtomicFolder folder(out_.string() + "/");
  WriteBoth(folder.path(), "new");
  EXPECT_FALSE(fs::exists(out_));
  folder.Commit();
  EXPECT_EQ(Read(out_ / "data"), "new");
  EXPECT_EQ(Entries(), 1);
}

TEST_F(AtomicFolderTest, WithoutCommitTheOldFolderStays) {
  Write("old");
  {
    const AtomicFolder folder(out_, Replacing());
    WriteBoth(folder.path(), "new");
  }
  EXPECT_EQ(Read(out_ / "data"), "old");
  EXPECT_EQ(Entries(), 1);
}

TEST_F(AtomicFolderTest, FoldersOfNamesLikeItsOwnAreNotTouched) {
  for (const char* name : {"out.writing", "out.replaced", ".out", ".out.new",
                           ".out.1.new", "out.1.2.new", ".out.a.1.old"}) {
    fs::create_directory(folder_ / name);
    Put(folder_ / name / "mine", name);
  }
  Write("first");
  Write("second");
  Write("third", false);
  for (const char* name : {"out.writing", "out.replaced", ".out", ".out.new",
                           ".out.1.new", "out.1.2.new", ".out.a.1.old"}) {
    EXPECT_EQ(Read(folder_ / name / "mine"), name);
  }
  EXPECT_EQ(Entries(), 8);
}

TEST_F(AtomicFolderTest, ReplacesNothingOfOthers) {
  Write("old");
  Put(out_ / "notes.txt", "mine");
  EXPECT_THAT(ErrorOf(out_), HasSubstr("found notes.txt"));
  fs::remove(out_ / "notes.txt");
  fs::create_directory(out_ / "data.d");
  EXPECT_THAT(ErrorOf(out_), HasSubstr("found data.d"));
  fs::remove(out_ / "data.d");
  fs::rename(out_ / "mark", folder_ / "mark");
  EXPECT_THAT(ErrorOf(out_), HasSubstr("one without mark"));
  EXPECT_EQ(Read(out_ / "data"), "old");
  EXPECT_THAT(ErrorOf(out_, {}), HasSubstr("not there yet"));
  EXPECT_THAT(ErrorOf(out_ / "data"), HasSubstr("the name of a folder"));
}

TEST_F(AtomicFolderTest, KeepsWhatCameWhileItWrote) {
  for (const bool exchange : {true, false}) {
    Write("old");
    AtomicFolder folder(out_, Replacing(exchange));
    WriteBoth(folder.path(), "new");
    Put(out_ / "late", "mine");
    EXPECT_THROW(folder.Commit(), Error);
    EXPECT_EQ(Read(out_ / "late"), "mine");
    EXPECT_EQ(Read(out_ / "data"), "old");
    fs::remove(out_ / "late");
  }
}

TEST_F(AtomicFolderTest, ASecondWriterIsRefusedWhileTheFirstIsAtWork) {
  {
    const AtomicFolder first(out_, Replacing());
    EXPECT_THAT(ErrorOf(out_), HasSubstr("one writer of the folder at a time"));
    EXPECT_EQ(ErrorOf(folder_ / "other"), "no error");
  }
  EXPECT_EQ(ErrorOf(out_), "no error");
}

TEST_F(AtomicFolderTest, ALinkStaysAndItsFolderIsWritten) {
  const fs::path link = folder_ / "link";
  fs::create_directory_symlink("out", link);
  AtomicFolder made(link, Replacing());  // of what is not there yet
  WriteBoth(made.path(), "old");
  made.Commit();
  EXPECT_TRUE(fs::is_symlink(link));
  AtomicFolder again(link, Replacing());
  WriteBoth(again.path(), "new");
  again.Commit();
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(Read(out_ / "data"), "new");
  EXPECT_EQ(Entries(), 2);
}

TEST_F(AtomicFolderTest, KeepsTheModeOfWhatItReplaces) {
  for (const bool exchange : {true, false}) {
    Write("old");
    ASSERT_EQ(chmod(out_.c_str(), 0700), 0);
    Write("new", exchange);
    struct stat status;
    ASSERT_EQ(stat(out_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0700u);
  }
}

TEST_F(AtomicFolderTest, WhatAKilledWriterLeftIsTidiedByTheNext) {
  Write("old");
  LeaveBehind();
  EXPECT_EQ(Read(out_ / "data"), "old");
  EXPECT_EQ(Entries(), 2);
  Write("new");
  EXPECT_EQ(Read(out_ / "data"), "new");
  EXPECT_EQ(Entries(), 1);
}

// Where names cannot be swapped, killed between the two renames.
TEST_F(AtomicFolderTest, AFolderThatLostItsNameGetsItBack) {
  Write("old");
  LeaveBehind();
  fs::rename(out_, folder_ / ".out.12345.0.old");
  RequireWritableFolder(out_, Replacing());
  EXPECT_EQ(Read(out_ / "data"), "old");
  EXPECT_EQ(Entries(), 1);
}

// Each look sees one whole folder, the old one or the new one.
TEST_F(AtomicFolderTest, ThereIsAlwaysAFolderAtItsName) {
  Write("0");
  std::atomic<bool> done = false;
  std::atomic<int> looks = 0, missing = 0;
  std::thread other([&] {
    while (!done) {
      ++looks;
      missing += fs::exists(out_) ? 0 : 1;
    }
  });
  for (int i = 0; i < 20 || looks < 200; ++i) Write(std::to_string(i));
  done = true;
  other.join();
  EXPECT_EQ(missing, 0);
}

TEST_F(AtomicFolderTest, AsksForAPlaceWithoutMakingIt) {
  RequireWritableFolder("", {});
  RequireWritableFolder(folder_ / "a/b/c", {});
  EXPECT_EQ(Entries(), 0);
  Put(folder_ / "file", "");
  EXPECT_THROW(RequireWritableFolder(folder_ / "file/b", {}), Error);
}

}  // namespace
}  // namespace headwise::atomic_folder_test
