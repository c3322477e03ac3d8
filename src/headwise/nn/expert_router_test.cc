// The choice of experts against its definition, and what it must refuse.
// (Gradients: experts_test.cc.)
#include "headwise/nn/expert_router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <string>

#include "headwise/base/rng.h"
#include "headwise/error.h"

namespace headwise::expert_router_test {
namespace {

using testing::ElementsAre;

struct RandomRouter {
  explicit RandomRouter(uint64_t seed) : rng(seed) {
    config.groups = rng.Between(1, 4);
    const int64_t width = rng.Between(2, 5);
    experts = config.groups * width;
    config.active_groups = rng.Between(1, config.groups);
    config.active = rng.Between(1, config.active_groups * width);
    config.score =
        rng.Below(2) == 0 ? RouterScore::kSoftmax : RouterScore::kSigmoid;
    config.group_score =
        rng.Below(2) == 0 ? GroupScore::kBest : GroupScore::kBestTwo;
    config.normalized = rng.Below(2) == 0;
    config.scale = 0.5f + static_cast<float>(rng.Uniform()) * 2;
    for (int64_t i = 0; i < tokens * experts; ++i) {
      // Few values, so that some are equal.
      logits.push_back(static_cast<float>(rng.Between(-6, 6)) / 4);
    }
    if (rng.Below(2) == 0) {
      for (int64_t e = 0; e < experts; ++e) {
        correction.push_back(static_cast<float>(rng.Normal()) * 0.2f);
      }
    }
  }

  Rng rng;
  ExpertRouterConfig config;
  int64_t experts = 0, tokens = 7;
  std::vector<float> logits, correction;
};

// By sorting, as the papers write it.
struct Expected {
  std::set<int32_t> chosen;
  std::vector<double> weights;  // [E]
};

std::vector<int64_t> Descending(const std::vector<double>& values) {
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return values[a] > values[b]; });
  return order;
}

Expected ByDefinition(const RandomRouter& router, int64_t token) {
  const ExpertRouterConfig& config = router.config;
  const int64_t width = router.experts / config.groups;
  std::vector<double> scores;
  double sum = 0;
  for (int64_t e = 0; e < router.experts; ++e) {
    const double z = router.logits[token * router.experts + e];
    sum += std::exp(z);
    scores.push_back(config.score == RouterScore::kSoftmax
                         ? std::exp(z)
                         : std::exp(z) / (1 + std::exp(z)));
  }
  if (config.score == RouterScore::kSoftmax) {
    for (double& one : scores) one /= sum;
  }
  std::vector<double> preference = scores, groups;
  for (size_t e = 0; e < router.correction.size(); ++e) {
    preference[e] += router.correction[e];
  }
  for (int64_t g = 0; g < config.groups; ++g) {
    std::vector<double> own(preference.begin() + g * width,
                            preference.begin() + (g + 1) * width);
    std::sort(own.rbegin(), own.rend());
    const bool two = config.group_score == GroupScore::kBestTwo;
    groups.push_back(two ? own[0] + own[1] : own[0]);
  }
  std::vector<int64_t> best = Descending(groups);
  best.resize(config.active_groups);
  Expected expected;
  expected.weights.assign(router.experts, 0);
  double chosen = 0;
  for (const int64_t e : Descending(preference)) {
    if (std::ssize(expected.chosen) == config.active) break;
    if (std::count(best.begin(), best.end(), e / width) == 0) continue;
    expected.chosen.insert(static_cast<int32_t>(e));
    chosen += scores[e];
  }
  for (const int32_t e : expected.chosen) {
    expected.weights[e] =
        config.scale * scores[e] / (config.normalized ? chosen : 1);
  }
  return expected;
}

TEST(ExpertRouterTest, ChoosesAsDefined) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const RandomRouter router(seed);
    const int64_t active = router.config.active;
    CheckExpertRouter(router.config, router.experts);
    const ExpertChoice choice = ChooseExperts(router.config, router.experts,
                                              router.logits, router.correction);
    ASSERT_EQ(choice.tokens, router.tokens);
    for (int64_t t = 0; t < router.tokens; ++t) {
      const Expected expected = ByDefinition(router, t);
      const auto first = choice.chosen.begin() + t * active;
      ASSERT_THAT(std::vector<int32_t>(first, first + active),
                  testing::ElementsAreArray(expected.chosen));
      for (int64_t j = 0; j < active; ++j) {
        EXPECT_NEAR(choice.weights[t * active + j], expected.weights[first[j]],
                    1e-6);
      }
    }
  }
}

TEST(ExpertRouterTest, EqualScoresGoToTheFirst) {
  const ExpertRouterConfig config = {.active = 2};
  EXPECT_THAT(ChooseExperts(config, 4, {1, 1, 1, 1}, {}).chosen,
              ElementsAre(0, 1));
  EXPECT_THAT(ChooseExperts(config, 4, {0, 1, 2, 1}, {}).chosen,
              ElementsAre(1, 2));
}

TEST(ExpertRouterTest, SoftmaxNormalizedIsThatOfTheChosen) {
  const ExpertChoice choice =
      ChooseExperts({.active = 2, .normalized = true}, 4, {2, -1, 3, 0.5f}, {});
  EXPECT_THAT(choice.chosen, ElementsAre(0, 2));
  EXPECT_FLOAT_EQ(choice.weights[0], 1 / (1 + std::exp(1.0f)));
  EXPECT_FLOAT_EQ(choice.weights[1], 1 / (1 + std::exp(-1.0f)));
}

TEST(ExpertRouterTest, ACorrectionChangesTheChoiceAndNoWeight) {
  const ExpertRouterConfig config = {.score = RouterScore::kSigmoid};
  const std::vector<float> correction = {0, 0.9f, 0};
  const ExpertChoice choice = ChooseExperts(config, 3, {1, 0, -1}, correction);
  EXPECT_THAT(choice.chosen, ElementsAre(1));
  EXPECT_THAT(choice.weights, ElementsAre(0.5f));
}

TEST(ExpertRouterTest, SurvivesLogitsThatAreNotFinite) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float huge = std::numeric_limits<float>::infinity();
  for (const RouterScore score :
       {RouterScore::kSoftmax, RouterScore::kSigmoid}) {
    const ExpertChoice choice =
        ChooseExperts({.score = score, .active = 2}, 3,
                      {nan, nan, nan, 0, nan, 1, -huge, -huge, huge}, {});
    for (int64_t t = 0; t < choice.tokens; ++t) {
      EXPECT_LT(choice.chosen[2 * t], choice.chosen[2 * t + 1]);
    }
  }
  // Scores that all vanish have a sum of 0.
  const ExpertChoice none = ChooseExperts(
      {.score = RouterScore::kSigmoid, .active = 2, .normalized = true}, 2,
      {-1000, -1000}, {});
  EXPECT_THAT(none.weights, ElementsAre(0, 0));
}

TEST(ExpertRouterTest, BalanceIsLeastWhereAllAreUsedAlike) {
  const ExpertRouterConfig config = {.active = 2};
  // Each of three experts is left out once.
  const std::vector<float> even = {9, 9, 0, 9, 0, 9, 0, 9, 9};
  EXPECT_NEAR(BalanceLoss(config, ChooseExperts(config, 3, even, {})), 2, 1e-6);
  const std::vector<float> uneven = {9, 9, 0, 9, 9, 0, 9, 9, 0};
  EXPECT_NEAR(BalanceLoss(config, ChooseExperts(config, 3, uneven, {})), 3,
              1e-3);
}

TEST(ExpertRouterTest, CountsWhoIsUsed) {
  const ExpertRouterConfig config = {.active = 2, .normalized = true};
  const ExpertUse use =
      UseOf(ChooseExperts(config, 3, {5, 5, 0, 5, 0, 5, 7, 7, 0}, {}));
  EXPECT_THAT(use.tokens, ElementsAre(3, 2, 1));
  EXPECT_THAT(use.weight, ElementsAre(0.5, 0.5, 0.5));
  EXPECT_THAT(UseOf(ChooseExperts(config, 3, {5, 5, 0}, {})).weight,
              ElementsAre(0.5, 0.5, 0));
}

TEST(ExpertRouterTest, RefusesNumbersThatDoNotFit) {
  const auto refused = [](const ExpertRouterConfig& config) {
    try {
      CheckExpertRouter(config, 6);
      return std::string();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return std::string(error.what());
    }
  };
  EXPECT_EQ(refused({.active = 6}), "");
  EXPECT_THAT(refused({.active = 0}), testing::HasSubstr("found 0"));
  EXPECT_THAT(refused({.active = 7}), testing::HasSubstr("1 to 6 active"));
  EXPECT_THAT(refused({.groups = 4}), testing::HasSubstr("divide 6"));
  EXPECT_THAT(refused({.active = 4, .groups = 3, .active_groups = 1}),
              testing::HasSubstr("2 to 3 active groups"));
  EXPECT_THAT(refused({.groups = 6,
                       .active_groups = 2,
                       .group_score = GroupScore::kBestTwo}),
              testing::HasSubstr("two experts"));
}

}  // namespace
}  // namespace headwise::expert_router_test
