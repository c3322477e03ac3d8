// That no head hurts is said only where the text would have shown one.
#include "headwise/heads/importance/hurting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "headwise/base/rng.h"

namespace headwise::hurting_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Heads of these true effects, each sequence off by `noise`.
struct Sample {
  Sample(std::vector<double> effects, size_t sequences, double noise)
      : weights(sequences, 10.0) {
    Rng rng(7);
    const PairedBootstrap bootstrap(weights, 500, 1);
    for (const double effect : effects) {
      deltas.emplace_back();
      for (size_t i = 0; i < sequences; ++i) {
        deltas.back().push_back(10 * (effect + noise * rng.Normal()));
      }
      intervals.push_back(bootstrap.Ratio(deltas.back()));
    }
  }

  Hurting Find(LossKind loss = LossKind::kNextToken) const {
    HurtingEvidence evidence;
    evidence.loss = loss;
    evidence.deltas = deltas;
    evidence.weights = weights;
    evidence.intervals = intervals;
    evidence.least = evidence.resolution = 0.003;
    evidence.replicates = 500;
    return FindHurting(evidence);
  }

  std::vector<double> weights;
  std::vector<std::vector<double>> deltas;
  std::vector<Interval> intervals;
};

TEST(Hurting, NoneWhereTheTextWouldHaveShownIt) {
  const Hurting hurting = Sample({0, 0.01, 0.5}, 40, 0.001).Find();
  EXPECT_EQ(hurting.answer, HurtAnswer::kNone);
  EXPECT_EQ(hurting.predictions, 400);
  // Of the first head alone the interval reaches below 0.
  EXPECT_LT(hurting.smallest_seen, 0.003);
  EXPECT_GT(hurting.smallest_seen, 0);
  EXPECT_THAT(Describe(hurting), HasSubstr("none hurts (400 predictions"));
}

TEST(Hurting, LessTextWouldHaveShownLess) {
  const Hurting small = Sample({0, 0.5}, 10, 0.001).Find();
  const Hurting large = Sample({0, 0.5}, 160, 0.001).Find();
  EXPECT_GT(small.smallest_seen, 2 * large.smallest_seen);
  const Hurting sure = Sample({0.5, 0.4}, 40, 0.001).Find();
  EXPECT_EQ(sure.smallest_seen, 0);
  EXPECT_THAT(Describe(sure), HasSubstr("every head's interval above 0"));
}

TEST(Hurting, SomeAreNamed) {
  const Hurting hurting = Sample({0, -0.1, 0.5}, 40, 0.001).Find();
  EXPECT_EQ(hurting.answer, HurtAnswer::kSome);
  ASSERT_EQ(hurting.heads.size(), 1u);
  EXPECT_EQ(hurting.heads[0].head, 1u);
  EXPECT_EQ(Describe(hurting), "1 hurts");
}

TEST(Hurting, ANoisyTextDoesNotTell) {
  // The second head hurts, but four sequences do not show it.
  const Hurting hurting = Sample({0.5, -0.02}, 4, 0.05).Find();
  EXPECT_EQ(hurting.answer, HurtAnswer::kNotTested);
  EXPECT_THAT(hurting.undecided, ElementsAre(1));
  EXPECT_THAT(Describe(hurting), HasSubstr("not tested"));
  EXPECT_THAT(Describe(hurting), HasSubstr("too short"));
}

TEST(Hurting, FewSequencesAreNoTest) {
  const Hurting hurting = Sample({0.5, 0}, 3, 0.001).Find();
  EXPECT_EQ(hurting.answer, HurtAnswer::kNotTested);
  EXPECT_THAT(hurting.reason, HasSubstr("at least 4 sequences"));
}

TEST(Hurting, ADistanceFromTheModelItselfCannotBeLowered) {
  const Hurting hurting =
      Sample({0.5, 0}, 40, 0.001).Find(LossKind::kEmbeddingCosine);
  EXPECT_EQ(hurting.answer, HurtAnswer::kNotTestable);
  EXPECT_THAT(Describe(hurting), HasSubstr("cannot be tested"));
}

}  // namespace
}  // namespace headwise::hurting_test
