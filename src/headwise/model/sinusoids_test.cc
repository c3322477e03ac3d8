#include "headwise/model/sinusoids.h"

#include <gtest/gtest.h>

#include <cmath>

#include "headwise/ops/copy/copy.h"

namespace headwise::sinusoids_test {
namespace {

TEST(Sinusoids, RowsAreSinesThenCosinesOfAnOddWidthToo) {
  Context context({.threads = 1});
  const Sinusoids positions(SinusoidRule::kWidth, 2, 5, 100);
  const auto table = positions.Table(context, 3);
  ASSERT_GE(table->shape(0), 3);
  for (int64_t p = 0; p < 3; ++p) {
    const auto row = ToVector<double>(context, At(table->view(), 0, p));
    ASSERT_EQ(row.size(), 5);
    for (int i = 0; i < 3; ++i) {
      const double angle =
          static_cast<double>(2 + p) * std::pow(10000.0, -2.0 * i / 5);
      EXPECT_FLOAT_EQ(row[i], std::sin(angle));
      if (i == 2) continue;
      EXPECT_FLOAT_EQ(row[3 + i], std::cos(angle));
    }
  }
}

TEST(Sinusoids, OfTensor2tensorEndAnOddWidthIn0) {
  Context context({.threads = 1});
  const Sinusoids positions(SinusoidRule::kHalf, 2, 7, 100);
  const auto table = positions.Table(context, 2);
  for (int64_t p = 0; p < 2; ++p) {
    const auto row = ToVector<double>(context, At(table->view(), 0, p));
    ASSERT_EQ(row.size(), 7);
    for (int i = 0; i < 3; ++i) {
      const double angle =
          static_cast<double>(2 + p) * std::pow(10000.0, -i / 2.0);
      EXPECT_FLOAT_EQ(row[i], std::sin(angle));
      EXPECT_FLOAT_EQ(row[3 + i], std::cos(angle));
    }
    EXPECT_EQ(row[6], 0);
  }
}

TEST(Sinusoids, GrowAsTextsDoAndOldRowsStay) {
  Context context({.threads = 1});
  const Sinusoids positions(SinusoidRule::kWidth, 0, 4, 1000);
  const auto few = positions.Table(context, 1);
  EXPECT_EQ(positions.Table(context, few->shape(0)), few);
  const auto more = positions.Table(context, few->shape(0) + 1);
  EXPECT_GE(more->shape(0), 2 * few->shape(0));
  EXPECT_EQ(ToVector<float>(context, few->view()),
            ToVector<float>(context, Rows(more->view(), 0, few->shape(0))));
  EXPECT_EQ(positions.Table(context, 1000)->shape(0), 1000);
}

}  // namespace
}  // namespace headwise::sinusoids_test
