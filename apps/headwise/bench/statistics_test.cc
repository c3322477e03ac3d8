#include "bench/statistics.h"

#include <gtest/gtest.h>

#include <vector>

namespace headwise::bench {
namespace {

TEST(Statistics, QuantilesLieBetweenNeighbours) {
  const std::vector<double> sorted = {1, 2, 3, 5};
  EXPECT_DOUBLE_EQ(Quantile(sorted, 0), 1);
  EXPECT_DOUBLE_EQ(Quantile(sorted, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(Quantile(sorted, 0.75), 3.5);
  EXPECT_DOUBLE_EQ(Quantile(sorted, 1), 5);
}

TEST(Statistics, SpreadIsTheInterquartileRangeOverTheMedian) {
  // Sorted 1 2 3 4 100: quartiles 2 and 4, and the outlier does not matter.
  const std::vector<double> samples = {100, 2, 4, 1, 3};
  const Summary summary = Summarize(samples);
  EXPECT_DOUBLE_EQ(summary.median, 3);
  EXPECT_DOUBLE_EQ(summary.spread, 2.0 / 3);
}

TEST(Statistics, OneSampleHasNoSpreadAndNoneGivesZeros) {
  EXPECT_DOUBLE_EQ(Summarize(std::vector<double>{7}).median, 7);
  EXPECT_DOUBLE_EQ(Summarize(std::vector<double>{7}).spread, 0);
  EXPECT_DOUBLE_EQ(Summarize({}).median, 0);
}

}  // namespace
}  // namespace headwise::bench
