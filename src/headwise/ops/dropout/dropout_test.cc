#include "headwise/ops/dropout/dropout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace headwise {
namespace {

std::vector<float> Dropped(int threads, const DropoutMask& mask, int count) {
  Context context({threads, ""});
  std::vector<float> x(count, 1.0f);
  Dropout(context, mask, count, x.data(), x.data());
  return x;
}

TEST(Dropout, KeepsTheExpectedValueAndTheRate) {
  const int count = 100'003;
  double sum = 0;
  int zeros = 0;
  for (const float value : Dropped(2, {0.25f, 1, 2}, count)) {
    sum += value;
    if (value == 0) ++zeros;
  }
  EXPECT_NEAR(sum / count, 1, 0.01);
  EXPECT_NEAR(static_cast<double>(zeros) / count, 0.25, 0.01);
}

TEST(Dropout, IsTheSameAtAnyThreadCountAndOtherInOtherStreams) {
  const std::vector<float> one = Dropped(1, {0.5f, 7, 3}, 40'001);
  EXPECT_EQ(one, Dropped(3, {0.5f, 7, 3}, 40'001));
  EXPECT_NE(one, Dropped(1, {0.5f, 7, 4}, 40'001));
  EXPECT_NE(one, Dropped(1, {0.5f, 8, 3}, 40'001));
}

TEST(Dropout, DropsNearlyEverythingAtARateJustBelowOne) {
  const std::vector<float> values = Dropped(1, {0.999999f, 1, 1}, 10'000);
  EXPECT_LT(std::count_if(values.begin(), values.end(),
                          [](float value) { return value != 0; }),
            10);
}

TEST(Dropout, LeavesEverythingAtRateZero) {
  EXPECT_EQ(Dropped(1, {0, 1, 1}, 5), std::vector<float>(5, 1.0f));
}

}  // namespace
}  // namespace headwise
