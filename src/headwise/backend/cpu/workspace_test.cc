#include "headwise/backend/cpu/workspace.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <fstream>

#include "headwise/base/sanitized.h"
#include "headwise/error.h"

namespace headwise::workspace_test {
namespace {

TEST(Workspace, CountsThePeakAndReusesBlocks) {
  Workspace workspace;
  void* first = nullptr;
  {
    Scratch a = workspace.Take(1000);
    first = a.data();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
    Scratch b = workspace.TakeArray<float>(100);
    EXPECT_EQ(workspace.peak_bytes(), 1024u + 448u);
  }
  Scratch c = workspace.Take(1000);
  EXPECT_EQ(c.data(), first);
  EXPECT_EQ(workspace.peak_bytes(), 1024u + 448u);
  workspace.ResetPeak();
  EXPECT_EQ(workspace.peak_bytes(), 1024u);
}

TEST(Workspace, GrowingSizesLeaveNoBlocksBehind) {
  const auto resident = [] {
    int64_t whole = 0, pages = 0;
    std::ifstream("/proc/self/statm") >> whole >> pages;
    return pages * sysconf(_SC_PAGESIZE);
  };
  if (IsSanitized()) {
    GTEST_SKIP() << "sanitizers hold memory of their own";
  }
  Workspace workspace;
  const int64_t before = resident();
  size_t bytes = 1 << 20;
  for (int i = 0; i < 36; ++i, bytes += bytes / 10) {
    const Scratch block = workspace.Take(bytes);
    std::memset(block.data(), 1, block.bytes());
  }
  // All blocks together are eleven times the last.
  EXPECT_LT(resident() - before, static_cast<int64_t>(4 * bytes));
}

TEST(Workspace, ImpossibleSizesAreAnError) {
  Workspace workspace;
  EXPECT_THROW(workspace.Take(SIZE_MAX), Error);
  EXPECT_THROW(workspace.Take(SIZE_MAX / 2), Error);
}

}  // namespace
}  // namespace headwise::workspace_test
