// The four words, each with what must not earn it.
#include "headwise/study/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "headwise/error.h"
#include "headwise/study/study.h"

namespace headwise::verdict_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr VerdictRules kFiveSeeds = {
    .trained = true, .full = true, .seeds = 5, .seeds_needed = 5};

// Of one figure in a trained hypothesis.
Judgement Of(const VerdictRules& rules, const auto& add) {
  StudyResult result;
  result.rules = rules;
  add(result);
  return result.JudgementOf(result.figures.back());
}

Verdict AtLeastZero(double value, double low, double high,
                    const VerdictRules& rules = kFiveSeeds) {
  return Of(rules,
            [&](StudyResult& r) {
              r.AtLeast("", SeedMean{{value, low, high}}, 0);
            })
      .verdict;
}

TEST(VerdictTest, TheWholeIntervalDecides) {
  EXPECT_EQ(AtLeastZero(1, 0.5, 1.5), Verdict::kHeld);
  EXPECT_EQ(AtLeastZero(1, 0, 2), Verdict::kHeld);
  EXPECT_EQ(AtLeastZero(-1, -1.5, -0.5), Verdict::kRefuted);
  // The middle lies on the right side, or on the wrong one.
  EXPECT_EQ(AtLeastZero(1, -0.5, 2.5), Verdict::kUndecided);
  EXPECT_EQ(AtLeastZero(-0.0021, -0.027, 0.024), Verdict::kUndecided);
}

TEST(VerdictTest, AtMostAndNearLikewise) {
  const auto at_most = [](double low, double high) {
    return Of(kFiveSeeds,
              [&](StudyResult& r) {
                r.AtMost("", SeedMean{{(low + high) / 2, low, high}}, 1);
              })
        .verdict;
  };
  EXPECT_EQ(at_most(0.2, 0.9), Verdict::kHeld);
  EXPECT_EQ(at_most(0.2, 1.1), Verdict::kUndecided);
  EXPECT_EQ(at_most(1.1, 1.2), Verdict::kRefuted);
  const auto near = [](double low, double high) {
    return Of(kFiveSeeds,
              [&](StudyResult& r) {
                r.Near("", SeedMean{{(low + high) / 2, low, high}}, 1, 0.1);
              })
        .verdict;
  };
  EXPECT_EQ(near(0.95, 1.05), Verdict::kHeld);
  EXPECT_EQ(near(0.85, 0.95), Verdict::kUndecided);
  EXPECT_EQ(near(0.5, 1.5), Verdict::kUndecided);
  EXPECT_EQ(near(0.5, 0.85), Verdict::kRefuted);
  EXPECT_EQ(near(1.2, 1.5), Verdict::kRefuted);
}

TEST(VerdictTest, WhatIsTrainedNeedsSeedsAndAFullRun) {
  VerdictRules rules = kFiveSeeds;
  rules.seeds = 4;
  const auto held = [](StudyResult& r) {
    r.AtLeast("", SeedMean{{1, 0.5, 1.5}}, 0);
  };
  EXPECT_EQ(Of(rules, held).verdict, Verdict::kUndecided);
  EXPECT_EQ(Of(rules, held).why, "4 of at least 5 seeds");
  rules.seeds_needed = 3;
  EXPECT_EQ(Of(rules, held).verdict, Verdict::kHeld);
  rules.full = false;
  EXPECT_EQ(Of(rules, held).why, "a quick run");
  // One model of several seeds' study has no interval.
  const auto one = [](StudyResult& r) {
    r.AtLeast("", SeedMean{{1, -Figure::kInfinity, Figure::kInfinity}}, 0);
  };
  EXPECT_EQ(Of(kFiveSeeds, one).verdict, Verdict::kUndecided);
}

TEST(VerdictTest, OneNumberDecidesWhereItIsMathematics) {
  const auto number = [](StudyResult& r) { r.AtMost("", 0.5, 1); };
  EXPECT_EQ(Of({}, number).verdict, Verdict::kHeld);
  EXPECT_EQ(Of({}, [](StudyResult& r) { r.AtMost("", 1.5, 1); }).verdict,
            Verdict::kRefuted);
  EXPECT_EQ(Of(kFiveSeeds, number).verdict, Verdict::kUndecided);
  EXPECT_EQ(Of(kFiveSeeds,
               [](StudyResult& r) {
                 r.Expect(StudyKind::kLaw);
                 r.AtMost("", 0.5, 1);
               })
                .verdict,
            Verdict::kHeld);
  // A law of what is trained needs its seeds all the same.
  EXPECT_EQ(Of({.trained = true},
               [](StudyResult& r) {
                 r.Expect(StudyKind::kLaw);
                 r.AtMost("", SeedMean{{0.5, 0.4, 0.6}}, 1);
               })
                .verdict,
            Verdict::kUndecided);
}

TEST(VerdictTest, NotANumberDecidesNothingAndHoldsNoLaw) {
  StudyResult result;
  result.kind = StudyKind::kLaw;
  result.AtMost("", std::nan(""), 1);
  EXPECT_EQ(result.verdict(), Verdict::kUndecided);
  EXPECT_FALSE(result.laws_held());
  StudyResult reported;
  reported.AtMost("", 0, 1);
  EXPECT_EQ(reported.verdict(), Verdict::kHeld);
  reported.Report("", std::nan(""));
  EXPECT_EQ(reported.verdict(), Verdict::kUndecided);
}

TEST(VerdictTest, NearChanceOrTheBestNothingIsDecided) {
  const auto share = [](double value) {
    return Of(kFiveSeeds, [&](StudyResult& r) {
      r.AtLeast("", SeedMean{{value, value - 0.001, value + 0.001}}, 0.3);
      r.Between(0.25, 1);
    });
  };
  EXPECT_EQ(share(0.9).verdict, Verdict::kHeld);
  EXPECT_EQ(share(0.97).verdict, Verdict::kUndecided);
  EXPECT_THAT(share(0.97).why, HasSubstr("the best possible"));
  EXPECT_EQ(share(0.28).verdict, Verdict::kUndecided);
  EXPECT_THAT(share(0.28).why, HasSubstr("chance"));
  EXPECT_EQ(share(0.295).verdict, Verdict::kRefuted);
}

TEST(VerdictTest, WhatWasChangedAfterAResultIsExploratory) {
  VerdictRules rules = kFiveSeeds;
  rules.exploratory = true;
  EXPECT_EQ(AtLeastZero(1, 0.5, 1.5, rules), Verdict::kExploratory);
  EXPECT_EQ(AtLeastZero(-1, -1.5, -0.5, rules), Verdict::kExploratory);
  EXPECT_EQ(AtLeastZero(0, -1, 1, rules), Verdict::kUndecided);
  EXPECT_EQ(Of(rules,
               [](StudyResult& r) {
                 r.Expect(StudyKind::kLaw);
                 r.Near("", 0, 0, 0);
               })
                .verdict,
            Verdict::kHeld);
}

TEST(VerdictTest, NoDifferenceMeansWithinAMargin) {
  const auto within = [](double low, double high) {
    return Of(kFiveSeeds,
              [&](StudyResult& r) {
                r.WithinMargin("", SeedMean{{(low + high) / 2, low, high}},
                               0.02);
              })
        .verdict;
  };
  EXPECT_EQ(within(-0.01, 0.015), Verdict::kHeld);
  EXPECT_EQ(within(-0.01, 0.03), Verdict::kUndecided);
  EXPECT_EQ(within(0.021, 0.03), Verdict::kRefuted);
}

TEST(VerdictTest, WhatDidNotFormIsNotMeasured) {
  StudyResult result;
  result.rules = kFiveSeeds;
  const auto scores = [](double last) {
    return SeedMean{{0.8, 0.7, 0.9}, {0.9, 0.8, last}};
  };
  const auto verdict_after = [&](double last) {
    result.Formed("induction", scores(last), 0.5);
    result.AtLeast("what it is for", SeedMean{{1, 0.5, 1.5}}, 0);
    return result.JudgementOf(result.figures.back());
  };
  EXPECT_EQ(verdict_after(0.7).verdict, Verdict::kHeld);
  EXPECT_EQ(verdict_after(0.04).verdict, Verdict::kNotMeasured);
  EXPECT_EQ(verdict_after(0.04).why, "induction reached 0.5 in 2 of 3 models");
  EXPECT_EQ(result.verdict(), Verdict::kNotMeasured) << "the checks are told";
  result.EndFormed();
  result.AtLeast("else", SeedMean{{1, 0.5, 1.5}}, 0);
  EXPECT_EQ(result.JudgementOf(result.figures.back()).verdict, Verdict::kHeld);
}

TEST(VerdictTest, AClaimTakesTheWeakestWord) {
  using V = Verdict;
  const auto weakest = [](std::vector<V> words) { return Weakest(words); };
  EXPECT_EQ(weakest({}), V::kUndecided);
  EXPECT_EQ(weakest({V::kHeld, V::kHeld}), V::kHeld);
  EXPECT_EQ(weakest({V::kHeld, V::kExploratory}), V::kExploratory);
  EXPECT_EQ(weakest({V::kUndecided, V::kExploratory}), V::kUndecided);
  EXPECT_EQ(weakest({V::kUndecided, V::kRefuted, V::kHeld}), V::kRefuted);
}

// A study that trains nothing but has the rules of one that does.
StudyResult RunSeeds(Context& /*context*/, const StudyRequest& request) {
  StudyResult result;
  result.seeds = request.seeds;
  result.AtLeast("gain", SeedMean{{1, 0.9, 1.1}}, 0);
  return result;
}
constexpr StudyChange kChanged[] = {{"a", "b", "c", "d"}};
constexpr StudyChange kChangedBefore[] = {{"a", "b", "c", "d", false}};
constexpr uint64_t kFresh[] = {11, 12, 13, 14, 15};

Study Sample() {
  return {.name = "sample",
          .claim = "A claim.",
          .expectation = "an expectation",
          .kind = StudyKind::kHypothesis,
          .run = RunSeeds,
          .trained = true};
}

TEST(RunStudyTest, SeedsAreOneToNOrTheFreshOnes) {
  Study study = Sample();
  StudyRequest request;
  EXPECT_THAT(SeedsOf(study, request), ElementsAre(1));
  request.full = true;
  EXPECT_THAT(SeedsOf(study, request), ElementsAre(1, 2, 3, 4, 5));
  study.slow = true;
  EXPECT_THAT(SeedsOf(study, request), ElementsAre(1, 2, 3));
  request.seed_count = 2;
  EXPECT_THAT(SeedsOf(study, request), ElementsAre(1, 2));
  study.fresh_seeds = kFresh;
  EXPECT_THAT(SeedsOf(study, request), ElementsAre(11, 12));
  request.seed_count = 6;
  EXPECT_THAT(SeedsOf(study, request), ElementsAre(11, 12, 13, 14, 15, 16));
  request.seed_count = 0;
  EXPECT_THAT(SeedsOf(study, request), ElementsAre(11, 12, 13, 14, 15));
  EXPECT_THAT(study.replicate_seeds(),
              ElementsAre(1016, 1017, 1018, 1019, 1020));
  request.chosen = {21, 23};
  EXPECT_THAT(SeedsOf(study, request), ElementsAre(21, 23));
}

TEST(RunStudyTest, AHistoryIsExploratoryUntilFreshSeedsConfirm) {
  Context context({.threads = 1, .implementations = ""});
  Study study = Sample();
  StudyRequest request;
  EXPECT_EQ(RunStudy(study, context, request).verdict(), Verdict::kUndecided);
  request.full = true;
  EXPECT_EQ(RunStudy(study, context, request).verdict(), Verdict::kHeld);
  study.history = kChanged;
  EXPECT_EQ(RunStudy(study, context, request).verdict(), Verdict::kExploratory);
  study.history = kChangedBefore;
  EXPECT_EQ(RunStudy(study, context, request).verdict(), Verdict::kHeld);
  study.history = kChanged;
  study.fresh_seeds = kFresh;
  EXPECT_EQ(RunStudy(study, context, request).verdict(), Verdict::kHeld);
  // More evidence weakens no word; what the study was changed on is not fresh.
  request.seed_count = 6;
  EXPECT_EQ(RunStudy(study, context, request).verdict(), Verdict::kHeld);
  request.chosen = study.replicate_seeds();
  EXPECT_EQ(RunStudy(study, context, request).verdict(), Verdict::kHeld);
  request.chosen = {1, 2, 3, 4, 5};
  EXPECT_EQ(RunStudy(study, context, request).verdict(), Verdict::kExploratory);
}

TEST(StudyHashTest, ChangesWithAllThatAVerdictDependsOn) {
  const auto hash = [](const auto& change) {
    Study study = Sample();
    StudyResult result;
    result.AtMost("a", 1, 1);
    result.steps = {"1 or 2 steps"};
    change(study, result);
    return StudyHash(study, result);
  };
  const std::string base = hash([](Study&, StudyResult&) {});
  EXPECT_EQ(base.size(), 16u);
  // What a run measured, and how long it took, is no part of it.
  EXPECT_EQ(base, hash([](Study&, StudyResult& r) {
              r.figures[0].value = 7;
              r.seconds = 7;
              r.Report("b", 1);
              r.InformOnly();
              r.AtMost("c", 1, 1);
            }));
  std::set<std::string> hashes = {
      base,
      hash([](Study& s, StudyResult&) { s.claim = "Another."; }),
      hash([](Study& s, StudyResult&) { s.expectation = "another"; }),
      hash([](Study& s, StudyResult&) { s.kind = StudyKind::kLaw; }),
      hash([](Study& s, StudyResult&) { s.revision = 2; }),
      hash([](Study& s, StudyResult&) { s.slow = true; }),
      hash([](Study& s, StudyResult&) { s.fresh_seeds = kFresh; }),
      hash([](Study&, StudyResult& r) { r.steps = {"1 or 3 steps"}; }),
      hash([](Study&, StudyResult& r) { r.AtMost("b", 1, 1); }),
      hash([](Study&, StudyResult& r) { r.figures[0].name = "b"; }),
      hash([](Study&, StudyResult& r) { r.figures[0].expected = "≤ 2"; })};
  EXPECT_EQ(hashes.size(), 11u);
}

}  // namespace
}  // namespace headwise::verdict_test
