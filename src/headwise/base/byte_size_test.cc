#include "headwise/base/byte_size.h"

#include <gtest/gtest.h>

namespace headwise::byte_size_test {
namespace {

TEST(ByteSizeTest, TakesTheUnitThatReadsBest) {
  EXPECT_EQ(ByteSize(0), "0 B");
  EXPECT_EQ(ByteSize(1000), "1000 B");
  EXPECT_EQ(ByteSize(1024), "1.0 KiB");
  EXPECT_EQ(ByteSize(uint64_t{7} << 29), "3.5 GiB");
  EXPECT_EQ(ByteSize((uint64_t{1} << 20) - 1), "1.0 MiB");
  EXPECT_EQ(ByteSize(~uint64_t{0}), "16.0 EiB");
}

}  // namespace
}  // namespace headwise::byte_size_test
