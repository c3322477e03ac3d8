// Statistics against known values, and intervals against planted truth.
#include "headwise/heads/importance/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "headwise/base/rng.h"

namespace headwise::statistics_test {
namespace {

TEST(PairedBootstrap, CoversTheTruthAboutAsOftenAsItSays) {
  // Sequences of different lengths whose differences scatter around 0.3 a
  // token: the truth is known, the interval must hold it in about 95 of 100.
  constexpr int kTrials = 300;
  for (const int sequences : {6, 40}) {
    int covered = 0;
    Rng rng(5);
    for (int trial = 0; trial < kTrials; ++trial) {
      std::vector<double> weights, sums;
      for (int i = 0; i < sequences; ++i) {
        weights.push_back(20 + 30 * rng.Uniform());
        sums.push_back(weights.back() * (0.3 + 0.5 * rng.Normal()));
      }
      const Interval interval =
          PairedBootstrap(weights, 400, trial).Ratio(sums);
      covered += interval.low <= 0.3 && 0.3 <= interval.high;
    }
    EXPECT_GE(covered, kTrials * 0.89) << sequences;
    EXPECT_LE(covered, kTrials * 0.99) << sequences;
  }
}

TEST(PairedBootstrap, SameSeedSameInterval) {
  const std::vector<double> weights = {3, 4, 5, 6}, sums = {1, -2, 3, 4};
  const Interval a = PairedBootstrap(weights, 200, 7).Ratio(sums);
  const Interval b = PairedBootstrap(weights, 200, 7).Ratio(sums);
  EXPECT_EQ(a.low, b.low);
  EXPECT_EQ(a.high, b.high);
  EXPECT_DOUBLE_EQ(a.value, 6.0 / 18);
}

TEST(PairedBootstrap, SharesAtTheEndsAreBinomial) {
  const PairedBootstrap bootstrap(std::vector<double>(20, 1.0), 200, 7);
  const Interval all = bootstrap.Share(std::vector<double>(20, 1.0));
  EXPECT_EQ(all.value, 1);
  EXPECT_EQ(all.high, 1);
  EXPECT_NEAR(all.low, 0.8316, 1e-4) << "20 of 20";
  std::vector<double> most(20, 1.0);
  most[3] = 0;
  const Interval one_wrong = bootstrap.Share(most);
  EXPECT_GT(one_wrong.low, 0.7);
  EXPECT_LT(one_wrong.low, 0.9);
  EXPECT_LT(one_wrong.high, 1);
  EXPECT_GT(one_wrong.high, 0.98);
}

TEST(PairedBootstrap, OneSequenceTellsNothing) {
  const Interval interval =
      PairedBootstrap({4}, 100, 0).Ratio(std::vector<double>{2});
  EXPECT_DOUBLE_EQ(interval.value, 0.5);
  EXPECT_TRUE(std::isinf(interval.low) && interval.low < 0);
  EXPECT_TRUE(std::isinf(interval.high) && interval.high > 0);
}

TEST(BelowZeroP, IsStudentsT) {
  // −0.5 ± 0.5 with two degrees of freedom: t = −1 leaves 0.2113 below.
  EXPECT_NEAR(BelowZeroP(std::vector<double>{-1.366025, -0.5, 0.366025},
                         std::vector<double>(3, 1.0)),
              0.211325, 1e-6);
}

TEST(BelowZeroP, IsUniformUnderTheNull) {
  Rng rng(11);
  constexpr int kTrials = 4000;
  int below_20 = 0, below_2 = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> weights(8, 1.0), sums;
    for (int i = 0; i < 8; ++i) sums.push_back(rng.Normal());
    const double p = BelowZeroP(sums, weights);
    below_20 += p < 0.2;
    below_2 += p < 0.02;
  }
  EXPECT_NEAR(below_20, kTrials * 0.2, 100);
  EXPECT_NEAR(below_2, kTrials * 0.02, 35);
}

TEST(BenjaminiHochberg, StepsUp) {
  // 0.03 passes because 0.02 < 4/5 · 0.05 stands behind it in the order.
  const std::vector<double> p = {0.035, 0.001, 0.9, 0.02, 0.03};
  EXPECT_THAT(BenjaminiHochberg(p, 0.05),
              testing::ElementsAre(true, true, false, true, true));
  EXPECT_THAT(BenjaminiHochberg(std::vector<double>{0.04, 0.06}, 0.05),
              testing::ElementsAre(false, false));
}

TEST(RankCorrelations, KnownValuesWithTies) {
  const std::vector<double> a = {1, 2, 3, 4, 5}, b = {2, 1, 4, 3, 5};
  EXPECT_NEAR(Spearman(a, b), 0.8, 1e-12);
  EXPECT_NEAR(Kendall(a, b), 0.6, 1e-12);
  const std::vector<double> tied = {1, 2, 2, 3, 3};
  EXPECT_NEAR(Spearman(a, tied), 0.9486832980505138, 1e-12);
  EXPECT_NEAR(Kendall(a, tied), 8 / std::sqrt(80.0), 1e-12);
  EXPECT_TRUE(std::isnan(Spearman(a, std::vector<double>(5, 1.0))));
}

TEST(RankCorrelations, WhatIsNotANumberHasNoRank) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> a = {1, nan, 3}, b = {2, 1, 4};
  EXPECT_TRUE(std::isnan(Spearman(a, b)));
  EXPECT_TRUE(std::isnan(Spearman(b, a)));
  EXPECT_TRUE(std::isnan(Kendall(a, b)));
}

TEST(Unevenness, EqualAndConcentrated) {
  const std::vector<double> equal(4, 2.0), one = {0, 0, 3, -1};
  EXPECT_NEAR(Gini(equal), 0, 1e-12);
  EXPECT_NEAR(Gini(one), 0.75, 1e-12);
  EXPECT_NEAR(EffectiveNumber(equal), 4, 1e-12);
  EXPECT_NEAR(EffectiveNumber(one), 1, 1e-12);
  EXPECT_EQ(CountForShare(equal, 0.9), 4);
  EXPECT_EQ(CountForShare(one, 0.9), 1);
  EXPECT_EQ(CountForShare(std::vector<double>{5, 4, 1}, 0.9), 2);
  EXPECT_EQ(EffectiveNumber(std::vector<double>(3, 0.0)), 0);
}

}  // namespace
}  // namespace headwise::statistics_test
