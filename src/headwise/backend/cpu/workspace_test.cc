#include "headwise/backend/cpu/workspace.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "headwise/error.h"

namespace headwise {
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

TEST(Workspace, ImpossibleSizesAreAnError) {
  Workspace workspace;
  EXPECT_THROW(workspace.Take(SIZE_MAX), Error);
  EXPECT_THROW(workspace.Take(SIZE_MAX / 2), Error);
}

}  // namespace
}  // namespace headwise
