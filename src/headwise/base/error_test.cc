#include "headwise/error.h"

#include <gtest/gtest.h>

namespace headwise::error_test {
namespace {

TEST(Error, SaysWhereExpectedFoundAndHint) {
  Error error(
      ErrorCode::kInvalidArgument,
      {"attention", "heads a multiple of kv_heads", "12 and 5", "use 4 or 6"});
  EXPECT_STREQ(error.what(),
               "[attention] expected heads a multiple of kv_heads; "
               "found 12 and 5; use 4 or 6");
  EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
}

TEST(Error, LeavesOutEmptyParts) {
  Error error(ErrorCode::kIo, {"profile", "", "a folder", ""});
  EXPECT_STREQ(error.what(), "[profile] found a folder");
}

}  // namespace
}  // namespace headwise::error_test
