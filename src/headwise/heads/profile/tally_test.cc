#include <gtest/gtest.h>

#include <cmath>

#include "headwise/profile.h"

namespace headwise::tally_test {
namespace {

TEST(TallyTest, RatioIsWeighted) {
  Tally tally;
  tally.Add(3, 10);  // a sequence of 10 rows with mean .3
  tally.Add(9, 10);
  tally.Add(0, 20);
  const Estimate estimate = tally.Ratio();
  EXPECT_DOUBLE_EQ(estimate.mean, 12.0 / 40);
  EXPECT_EQ(estimate.count, 40);
  EXPECT_EQ(estimate.sequences, 3);
  // Residuals 0, 6, −6: √(3/2 · 72) / 40 · 4.303.
  EXPECT_NEAR(estimate.high - estimate.mean, 4.302653 * std::sqrt(108.0) / 40,
              1e-6);
}

TEST(TallyTest, FiveSequencesTakeStudentsExactQuantile) {
  Tally tally;
  for (const double mean : {1, 2, 3, 4, 5}) tally.Add(mean, 1);
  EXPECT_NEAR(tally.Ratio().high - 3, 2.776445 * std::sqrt(.5), 1e-6);
}

TEST(TallyTest, SharesStayInRange) {
  Tally tally;  // 49 of 50 words, in ten sentences
  for (int i = 0; i < 10; ++i) tally.Add(i == 0 ? 4 : 5, 5);
  EXPECT_GT(tally.Ratio().high, 1);
  EXPECT_LT(tally.Ratio(0, 1).high, 1);
  EXPECT_GT(tally.Ratio(0, 1).low, .8);
  Tally all;
  for (int i = 0; i < 10; ++i) all.Add(5, 5);
  EXPECT_NEAR(all.Ratio(0, 1).low, .9289, 1e-4) << "50 of 50 words";
  EXPECT_EQ(all.Ratio(0, 1).high, 1);
}

TEST(TallyTest, NothingCountedIsNotZero) {
  Tally tally;
  tally.Add(0, 0);
  EXPECT_TRUE(tally.empty());
  EXPECT_TRUE(std::isnan(tally.Ratio().mean));
  tally.Add(1, 4);
  EXPECT_DOUBLE_EQ(tally.Ratio().mean, .25);
  EXPECT_TRUE(std::isnan(tally.Ratio().low)) << "one sequence, no interval";
}

TEST(TallyTest, MergeIsAddition) {
  Tally whole, first, second;
  for (int i = 0; i < 20; ++i) {
    whole.Add(i * .1, i % 3);
    (i % 2 == 0 ? first : second).Add(i * .1, i % 3);
  }
  second.Merge(first);
  EXPECT_EQ(second.n, whole.n);
  EXPECT_NEAR(second.Ratio().mean, whole.Ratio().mean, 1e-15);
  EXPECT_NEAR(second.Ratio().low, whole.Ratio().low, 1e-14);
}

TEST(TallyTest, IntervalCoversTheTruth) {
  // 400 experiments of 10 sequences each: 95 % ± 3 of the intervals hold the
  // true mean .5 (a fixed generator, so the count never changes).
  uint64_t state = 1;
  const auto uniform = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state >> 11) * 0x1p-53;
  };
  int covered = 0;
  for (int e = 0; e < 400; ++e) {
    Tally tally;
    for (int i = 0; i < 10; ++i) tally.Add(8 * uniform(), 8);
    const Estimate estimate = tally.Ratio();
    covered += estimate.low <= .5 && .5 <= estimate.high ? 1 : 0;
  }
  EXPECT_NEAR(covered, 380, 12);
}

}  // namespace
}  // namespace headwise::tally_test
