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

TEST(ByteSizeTest, ReadsNumbersWithAUnit) {
  EXPECT_EQ(ParseByteSize("0 B"), 0);
  EXPECT_EQ(ParseByteSize("512MiB"), uint64_t{512} << 20);
  EXPECT_EQ(ParseByteSize("1.5 GiB"), uint64_t{3} << 29);
  EXPECT_EQ(ParseByteSize("7 EiB"), uint64_t{7} << 60);
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{3} << 29}) {
    EXPECT_EQ(ParseByteSize(ByteSize(bytes)), bytes);
  }
  for (const char* text :
       {"", "2", "-1GiB", "+1GiB", "GiB", "2GB", "2gib", "2  GiB", "2 GiB ",
        "nanGiB", "infGiB", "1e3MiB", "8EiB", "99999999999EiB", ".5GiB"}) {
    EXPECT_FALSE(ParseByteSize(text)) << text;
  }
}

}  // namespace
}  // namespace headwise::byte_size_test
