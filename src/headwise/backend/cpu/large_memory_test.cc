#include "headwise/backend/cpu/large_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

namespace headwise::large_memory_test {
namespace {

TEST(LargeMemory, GivesZeroBytesOnceAndNoMoreThanThereAre) {
  LargeMemory memory(size_t{5} << 20);
  auto* first = static_cast<unsigned char*>(memory.Take(100));
  auto* second = static_cast<unsigned char*>(memory.Take(size_t{4} << 20));
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(second) % 64, 0u);
  EXPECT_GE(second - first, 100);
  EXPECT_EQ(second[(size_t{4} << 20) - 1], 0);
  std::memset(second, 1, size_t{4} << 20);
  EXPECT_EQ(first[99], 0);
  EXPECT_EQ(memory.Take(size_t{1} << 20), nullptr);
  EXPECT_NE(memory.Take(1000), nullptr);
}

TEST(LargeMemory, HasNothingWhereTheSystemHasNot) {
  for (const size_t bytes : {size_t{0}, SIZE_MAX / 2, SIZE_MAX}) {
    LargeMemory memory(bytes);
    EXPECT_EQ(memory.Take(1), nullptr);
  }
}

}  // namespace
}  // namespace headwise::large_memory_test
