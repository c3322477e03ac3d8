#include "headwise/base/nearest.h"

#include <gtest/gtest.h>

#include <vector>

namespace headwise::nearest_test {
namespace {

TEST(NearestTest, DistanceCountsEditsAndSwaps) {
  EXPECT_EQ(EditDistance("study", "study"), 0);
  EXPECT_EQ(EditDistance("stduy", "study"), 1);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
}

TEST(NearestTest, FindsTheClosestWord) {
  const std::vector<std::string> words = {"compare", "study", "bench"};
  EXPECT_EQ(Nearest("comprae", words), "compare");
  EXPECT_EQ(Nearest("stud", words), "study");
  EXPECT_EQ(Nearest("x", {}), "");
}

}  // namespace
}  // namespace headwise::nearest_test
