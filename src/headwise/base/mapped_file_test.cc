#include "headwise/base/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "headwise/base/atomic_file.h"
#include "headwise/base/release_pages.h"
#include "headwise/error.h"

namespace headwise::mapped_file_test {
namespace {

namespace fs = std::filesystem;

fs::path TemporaryPath(const char* name) {
  return fs::temp_directory_path() /
         (std::string("headwise.") + std::to_string(getpid()) + "." + name);
}

ErrorCode CodeOfOpening(const fs::path& path) {
  try {
    MappedFile file(path);
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(path.string()));
    return error.code();
  }
  return ErrorCode::kInternal;
}

MappedFile kept_to_the_end;

TEST(MappedFile, OutlivesWhatIsMadeInMain) {
  const fs::path path = TemporaryPath("kept");
  WriteFileAtomically(path, "kept");
  kept_to_the_end = MappedFile(path);
  fs::remove(path);
  EXPECT_EQ(kept_to_the_end.text(), "kept");
}

TEST(MappedFile, ReleasedPagesAreReadAgain) {
  const fs::path path = TemporaryPath("released");
  const std::string bytes(300000, 'x');
  WriteFileAtomically(path, bytes);
  const MappedFile file(path);
  fs::remove(path);
  EXPECT_EQ(file.text(), bytes);
  const auto faults = [] {
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
  };
  const auto begin = faults();
  EXPECT_EQ(file.text(), bytes);
  const auto warm = faults();
  ReleasePages(file.data() + 100, file.size() - 200);
  EXPECT_EQ(file.text(), bytes);
  EXPECT_GT(faults() - warm, warm - begin);
  ReleasePages(file.data() + 100, 50);  // no whole page
  EXPECT_EQ(file.text(), bytes);
}

TEST(MappedFile, ShowsTheBytesAndKeepsThemThroughMoves) {
  const fs::path path = TemporaryPath("mapped");
  WriteFileAtomically(path, std::string_view("ab\0c", 4));
  MappedFile file(path);
  fs::remove(path);
  const std::byte* data = file.data();
  MappedFile moved(std::move(file));
  MappedFile assigned;
  assigned = std::move(moved);
  EXPECT_EQ(assigned.data(), data);
  EXPECT_EQ(assigned.text(), std::string_view("ab\0c", 4));
}

TEST(MappedFile, AnEmptyFileIsEmptyNotAnError) {
  const fs::path path = TemporaryPath("empty");
  WriteFileAtomically(path, "");
  const MappedFile file(path);
  fs::remove(path);
  EXPECT_EQ(file.size(), 0u);
  EXPECT_TRUE(file.text().empty());
}

TEST(MappedFile, SaysWhatIsWrongWithThePath) {
  EXPECT_EQ(CodeOfOpening("/nowhere/at/all"), ErrorCode::kNotFound);
  EXPECT_EQ(CodeOfOpening(fs::temp_directory_path()), ErrorCode::kIo);
  EXPECT_EQ(CodeOfOpening("/dev/null"), ErrorCode::kIo);
}

}  // namespace
}  // namespace headwise::mapped_file_test
