// Intervals stay in range, agree with the plain ones far from the bounds and
// with binomial ones at them.
#include "headwise/base/intervals.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace headwise::intervals_test {
namespace {

TEST(MeanEndsTest, WithoutBoundsIsStudents) {
  const Ends ends = MeanEnds(2, .5, 5);
  EXPECT_NEAR(ends.high - 2, 2.7764451 * .5, 1e-7);
  EXPECT_NEAR(2 - ends.low, 2.7764451 * .5, 1e-7);
  EXPECT_TRUE(std::isinf(MeanEnds(2, .5, 1).low));
}

TEST(MeanEndsTest, OfCasesIsWilsons) {
  // 9 of 10, and 1 of 1000 (Wilson 1927, at 1.96): many sequences, so that
  // Student's t is the normal.
  const auto wilson = [](double p, double n) {
    return MeanEnds(p, std::sqrt(p * (1 - p) / n), 1000000, kShare);
  };
  EXPECT_NEAR(wilson(.9, 10).low, .5958, 1e-4);
  EXPECT_NEAR(wilson(.9, 10).high, .9821, 1e-4);
  EXPECT_NEAR(wilson(.001, 1000).low, .000177, 1e-6);
  EXPECT_NEAR(wilson(.001, 1000).high, .005643, 1e-6);
}

TEST(MeanEndsTest, SharesStayInRange) {
  for (const double mean : {1e-9, 1e-4, .01, .5, .99, .9999, 1 - 1e-9}) {
    for (const double error : {0., 1e-8, .001, .01, .2}) {
      const Ends ends = MeanEnds(mean, error, 5, kShare);
      EXPECT_GE(ends.low, 0) << mean << " ± " << error;
      EXPECT_LE(ends.high, 1) << mean << " ± " << error;
      EXPECT_LE(ends.low, mean + 1e-12) << mean << " ± " << error;
      EXPECT_GE(ends.high, mean - 1e-12) << mean << " ± " << error;
    }
  }
  const Ends far = MeanEnds(.5, .001, 20, kShare);
  EXPECT_NEAR(far.high - .5, 2.0930241 * .001, 1e-7) << "far from the bounds";
}

TEST(MeanEndsTest, AtABoundIsClopperAndPearsons) {
  // 5 of 5: from 47.8 %; 0 of 10: to 30.8 %.
  const Ends all = MeanEnds(1, 0, 5, kShare), none = MeanEnds(0, 0, 10, kShare);
  EXPECT_NEAR(all.low, .4782, 5e-5);
  EXPECT_EQ(all.high, 1);
  EXPECT_EQ(none.low, 0);
  EXPECT_NEAR(none.high, .3085, 5e-5);
  EXPECT_NEAR(MeanEnds(1, 0, 5, kShare, 1000).low, std::pow(.025, .001), 1e-12)
      << "each of 200 cases";
  EXPECT_EQ(MeanEnds(1 + 1e-7, 1e-9, 5, kShare).high, 1) << "a rounding";
}

TEST(MeanEndsTest, ACorrelationNearlyOneIsNoCount) {
  const Ends ends = MeanEnds(1 - 3e-9, 4e-9, 5, kShareDifference);
  EXPECT_GT(ends.low, 1 - 1e-6);
  EXPECT_LE(ends.high, 1);
  EXPECT_GT(MeanEnds(1 + 1e-9, 4e-9, 5, kShareDifference).low, 1 - 1e-6);
  EXPECT_LT(MeanEnds(1, 0, 5, kShareDifference).low, 0) << "five cases";
}

TEST(MeanEndsTest, OtherBoundsScale) {
  const Ends share = MeanEnds(.9, .05, 5, kShare);
  const Ends wide = MeanEnds(.8, .1, 5, kShareDifference);
  EXPECT_NEAR(wide.low, 2 * share.low - 1, 1e-12);
  EXPECT_NEAR(wide.high, 2 * share.high - 1, 1e-12);
  const Ends loss = MeanEnds(.121, .0813, 5, kNotNegative);
  EXPECT_GT(loss.low, 0);
  EXPECT_NEAR(loss.low * loss.high, .121 * .121, 1e-12);
  const Ends mirrored = MeanEnds(1 - .121, .0813, 5, {-Bounds::kInfinity, 1});
  EXPECT_NEAR(mirrored.high, 1 - loss.low, 1e-12);
  EXPECT_NEAR(mirrored.low, 1 - loss.high, 1e-12);
  EXPECT_NEAR(MeanEnds(30, .1, 5, kNotNegative).high, 30.278, 1e-3);
}

// Both ends' rates of what they should rarely miss, over experiments of ten
// sequences of eight cases each.
TEST(MeanEndsTest, CoversSharesNearTheBounds) {
  uint64_t state = 1;
  const auto uniform = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(state >> 11) * 0x1p-53;
  };
  constexpr int kTrials = 500, kSequences = 10, kCases = 8;
  for (const double truth : {.5, .9, .98}) {
    int covered = 0;
    for (int trial = 0; trial < kTrials; ++trial) {
      double sum = 0, squares = 0;
      for (int i = 0; i < kSequences; ++i) {
        double hits = 0;
        for (int k = 0; k < kCases; ++k) hits += uniform() < truth ? 1 : 0;
        sum += hits / kCases;
        squares += hits / kCases * (hits / kCases);
      }
      const double mean = sum / kSequences;
      const double variance =
          (squares - kSequences * mean * mean) / (kSequences - 1);
      const Ends ends =
          MeanEnds(mean, std::sqrt(std::fmax(variance, 0) / kSequences),
                   kSequences, kShare);
      covered += ends.low <= truth && truth <= ends.high ? 1 : 0;
    }
    EXPECT_GE(covered, kTrials * 0.92) << truth;
  }
}

}  // namespace
}  // namespace headwise::intervals_test
