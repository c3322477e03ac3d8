// Against published tables, and closed forms where there are some.
#include "headwise/base/quantiles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <iterator>
#include <numbers>

namespace headwise::quantiles_test {
namespace {

TEST(StudentQuantileTest, MatchesThePublishedTable) {
  // The two-sided 95 % column of every table, 1 … 40 degrees of freedom.
  constexpr double kPublished[] = {
      12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060,
      2.2622,  2.2281, 2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199,
      2.1098,  2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687, 2.0639,
      2.0595,  2.0555, 2.0518, 2.0484, 2.0452, 2.0423, 2.0395, 2.0369,
      2.0345,  2.0322, 2.0301, 2.0281, 2.0262, 2.0244, 2.0227, 2.0211};
  for (size_t i = 0; i < std::size(kPublished); ++i) {
    EXPECT_NEAR(StudentQuantile(0.975, static_cast<double>(i + 1)),
                kPublished[i], 5.1e-5)
        << i + 1;
  }
}

TEST(StudentQuantileTest, MatchesOtherColumns) {
  struct Row {
    double freedom, p90, p95, p99, p995, p9995;
  };
  constexpr Row kPublished[] = {{1, 3.0777, 6.3138, 31.8205, 63.6567, 636.6192},
                                {4, 1.5332, 2.1318, 3.7469, 4.6041, 8.6103},
                                {9, 1.3830, 1.8331, 2.8214, 3.2498, 4.7809},
                                {30, 1.3104, 1.6973, 2.4573, 2.7500, 3.6460},
                                {120, 1.2886, 1.6577, 2.3578, 2.6174, 3.3735}};
  for (const Row& row : kPublished) {
    EXPECT_NEAR(StudentQuantile(.90, row.freedom), row.p90, 5.1e-5);
    EXPECT_NEAR(StudentQuantile(.95, row.freedom), row.p95, 5.1e-5);
    EXPECT_NEAR(StudentQuantile(.99, row.freedom), row.p99, 5.1e-5);
    EXPECT_NEAR(StudentQuantile(.995, row.freedom), row.p995, 5.1e-5);
    EXPECT_NEAR(StudentQuantile(.9995, row.freedom), row.p9995, 5.1e-5);
  }
}

TEST(StudentQuantileTest, IsExactWhereThereIsAFormula) {
  for (const double p : {.51, .6, .75, .9, .975, .999, .999999}) {
    const double one = std::tan(std::numbers::pi * (p - .5));
    EXPECT_NEAR(StudentQuantile(p, 1), one, 1e-9 * one) << p;
    const double two = (2 * p - 1) * std::sqrt(1 / (2 * p * (1 - p)));
    EXPECT_NEAR(StudentQuantile(p, 2), two, 1e-9 * two) << p;
    EXPECT_DOUBLE_EQ(StudentQuantile(1 - p, 2), -StudentQuantile(p, 2));
  }
  EXPECT_EQ(StudentQuantile(.5, 3), 0);
  EXPECT_NEAR(StudentQuantile(.975, 1e8), 1.959963985, 1e-6) << "the normal's";
}

TEST(StudentBelowTest, IsTheQuantileTurnedAround) {
  for (const double freedom : {.5, 1., 3., 4., 17., 400.}) {
    for (const double p : {.0005, .025, .3, .5, .8, .99}) {
      EXPECT_NEAR(StudentBelow(StudentQuantile(p, freedom), freedom), p, 1e-12)
          << p << ", " << freedom;
    }
  }
}

TEST(BetaBelowTest, KnowsPolynomials) {
  EXPECT_NEAR(BetaBelow(.3, 1, 1), .3, 1e-15);
  EXPECT_NEAR(BetaBelow(.3, 2, 1), .09, 1e-15);
  EXPECT_NEAR(BetaBelow(.3, 2, 5), .579825, 1e-14);
  EXPECT_NEAR(BetaBelow(.9, 2, 5), .999945, 1e-14);
  EXPECT_EQ(BetaBelow(0, 2, 5), 0);
  EXPECT_EQ(BetaBelow(1, 2, 5), 1);
}

}  // namespace
}  // namespace headwise::quantiles_test
