#include "headwise/base/distribution.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace headwise::distribution_test {
namespace {

TEST(DistributionTest, MeasuresKnownRows) {
  const std::vector<double> sure = {1, 0}, even = {.5, .5};
  EXPECT_DOUBLE_EQ(Entropy(even), std::log(2));
  EXPECT_DOUBLE_EQ(Entropy(sure), 0);
  EXPECT_DOUBLE_EQ(KlDivergence(sure, even), std::log(2));
  EXPECT_EQ(KlDivergence(even, sure), INFINITY);
  EXPECT_DOUBLE_EQ(TotalVariation(sure, even), .5);
  const std::vector<double> other = {0, 1};
  EXPECT_DOUBLE_EQ(JensenShannon(sure, other), std::log(2));
}

TEST(DistributionTest, SoftmaxSurvivesLargeLogits) {
  const std::vector<double> p = Softmax(std::vector<double>{1000, 1000, -1000});
  EXPECT_THAT(p, testing::ElementsAre(.5, .5, 0));
}

TEST(DistributionTest, MeanIsColumnWise) {
  const std::vector<std::vector<double>> rows = {{1, 0}, {0, 1}};
  EXPECT_THAT(Mean(rows), testing::ElementsAre(.5, .5));
}

}  // namespace
}  // namespace headwise::distribution_test
