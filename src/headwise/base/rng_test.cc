#include "headwise/base/rng.h"

#include <gtest/gtest.h>

namespace headwise::rng_test {
namespace {

// Known-answer vectors of the Random123 distribution for philox4x32-10.
TEST(Rng, MatchesPublishedVectors) {
  EXPECT_EQ(Philox(0, 0, 0), (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d,
                                                      0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox(~0ull, ~0ull, ~0ull),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6,
                                     0x6d5451fd}));
}

TEST(Rng, NormalHasMeanZeroAndVarianceOne) {
  Rng rng(7);
  double sum = 0, squares = 0;
  const int n = 100000;
  for (int i = 0; i < n; ++i) {
    const double x = rng.Normal();
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / n, 0, 0.02);
  EXPECT_NEAR(squares / n, 1, 0.02);
}

TEST(Rng, BetweenReachesBothEnds) {
  Rng rng(3);
  bool low = false, high = false;
  for (int i = 0; i < 1000; ++i) {
    const int64_t x = rng.Between(-2, 2);
    ASSERT_GE(x, -2);
    ASSERT_LE(x, 2);
    low |= x == -2;
    high |= x == 2;
  }
  EXPECT_TRUE(low && high);
}

}  // namespace
}  // namespace headwise::rng_test
