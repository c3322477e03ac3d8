// Rankings of small models whose heads are known.
#include "headwise/heads/importance/ranking.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "headwise/error.h"
#include "headwise/heads/importance/ranking_json.h"
#include "headwise/heads/importance/test_models.h"

namespace headwise::ranking_test {
namespace {

using testing::HasSubstr;

RankOptions Everything() {
  RankOptions options;
  options.job.by = {Criterion::kAblationZero,     Criterion::kAblationMean,
                    Criterion::kAblationResample, Criterion::kActivation,
                    Criterion::kWeightsOv,        Criterion::kWeightsQk,
                    Criterion::kGradient};
  options.objective.mask_token = 3;
  options.replicates = 200;
  options.batch_tokens = 40;
  return options;
}

TEST(RankHeads, EveryKindOfModelGetsItsLossAndAllCriteria) {
  Context context({2, ""});
  struct Case {
    const char* model;
    const char* loss;
    size_t heads;
    size_t layers;
  };
  for (const Case& one :
       {Case{"gpt2", "next-token", 8, 2}, Case{"bert", "masked-token", 8, 2},
        Case{"marian", "target-tokens", 24, 6},
        Case{"bert-headless", "embedding-cosine", 8, 2}}) {
    const auto model = GoldenModel(one.model);
    const Ranking ranking =
        RankHeads(context, *model, RandomExamples(9, 12, 64, 6), Everything());
    EXPECT_STREQ(Name(ranking.loss_kind), one.loss);
    EXPECT_EQ(ranking.heads.size(), one.heads);
    EXPECT_EQ(ranking.layers.size(), one.layers);
    ASSERT_EQ(ranking.criteria.size(), 7u);
    EXPECT_EQ(ranking.correlations.size(), 21u);
    const bool headless = std::string(one.model) == "bert-headless";
    EXPECT_STREQ(Name(*ranking.gradient_loss),
                 headless ? "contrastive" : one.loss);
    EXPECT_EQ(ranking.sequences, 9);
    for (const CriterionResult& result : ranking.criteria) {
      ASSERT_EQ(result.heads.size(), one.heads);
      double sum = 0;
      for (const Interval& head : result.heads) {
        EXPECT_LE(head.low, head.value);
        EXPECT_GE(head.high, head.value);
        sum += std::abs(head.value);
      }
      EXPECT_GT(sum, 1e-5) << one.model << " " << Name(result.criterion);
    }
    const auto json = ToJson(ranking);
    EXPECT_EQ(json["loss"]["name"], one.loss);
    EXPECT_EQ(json["heads"].size(), one.heads);
  }
}

TEST(RankHeads, ADeadHeadCostsNothingWhateverReplacesIt) {
  Context context({2, ""});
  // W_V of key/value head 1 (heads 2 and 3) of layer 0 is 0.
  const auto model = GoldenModel("llama", [](WeightMap& weights) {
    Tensor& v = weights["model.layers.0.self_attn.v_proj.weight"];
    std::fill_n(v.As<float>() + v.size() / 2, v.size() / 2, 0.0f);
  });
  RankOptions options = Everything();
  options.has_role = [](const HeadRef&) { return false; };
  const Ranking ranking =
      RankHeads(context, *model, RandomExamples(8, 14, 64, 7), options);
  for (const CriterionResult& result : ranking.criteria) {
    if (result.criterion == Criterion::kWeightsQk) continue;
    EXPECT_NEAR(result.heads[2].value, 0, 1e-6) << Name(result.criterion);
    EXPECT_NEAR(result.heads[3].value, 0, 1e-6) << Name(result.criterion);
    EXPECT_GT(std::abs(result.heads[0].value), 1e-5) << Name(result.criterion);
  }
  EXPECT_EQ(ranking.classes[2], HeadClass::kNoise);
}

TEST(RankHeads, TheMeanStandsInForAConstantHead) {
  Context context({2, ""});
  // Keys and values that do not depend on the token: the values' bias alone.
  const auto model = GoldenModel("gpt2", [](WeightMap& weights) {
    for (auto& [name, tensor] : weights) {
      if (name.find("h.0.attn.c_attn.weight") == name.npos) continue;
      const int64_t columns = tensor.shape(1), width = columns / 3;
      for (int64_t r = 0; r < tensor.shape(0); ++r) {
        std::fill_n(tensor.As<float>() + r * columns + 2 * width, width, 0.0f);
      }
    }
  });
  RankOptions options = Everything();
  const Ranking ranking =
      RankHeads(context, *model, RandomExamples(8, 14, 64, 8), options);
  for (size_t head = 0; head < 4; ++head) {
    EXPECT_NEAR(ranking.criteria[1].heads[head].value, 0, 1e-5);
    EXPECT_NEAR(ranking.criteria[2].heads[head].value, 0, 1e-5);
  }
  EXPECT_GT(std::abs(ranking.criteria[0].heads[0].value), 1e-4);
}

TEST(RankHeads, PairsAndRepairOfASumOfIndependentHeads) {
  Context context({2, ""});
  const auto model = GoldenModel("llama");
  RankOptions options = Everything();
  options.job.by = {Criterion::kAblationZero};
  options.job.pairs = true;
  options.job.self_repair = true;
  const Ranking ranking =
      RankHeads(context, *model, RandomExamples(6, 10, 64, 9), options);
  EXPECT_EQ(ranking.pairs.size(), 28u);
  for (const PairEffect& pair : ranking.pairs) {
    const auto& single = ranking.criteria[0].heads;
    EXPECT_NEAR(pair.interaction.value,
                pair.delta.value - single[pair.a].value - single[pair.b].value,
                1e-9);
  }
  ASSERT_EQ(ranking.self_repair.size(), 8u);
  // Nobody stands behind the last layer.
  for (size_t h = 4; h < 8; ++h) {
    if (!ranking.self_repair[h]) continue;
    EXPECT_EQ(ranking.self_repair[h]->value, 0);
  }
}

TEST(RankHeads, BatchesDoNotMatter) {
  Context context({2, ""});
  const auto model = GoldenModel("bert");
  const std::vector<TextExample> examples = RandomExamples(7, 13, 64, 12);
  RankOptions options = Everything();
  options.job.by = {Criterion::kAblationMean};
  const Ranking small = RankHeads(context, *model, examples, options);
  options.batch_tokens = 4096;
  const Ranking large = RankHeads(context, *model, examples, options);
  for (size_t head = 0; head < 8; ++head) {
    EXPECT_NEAR(small.criteria[0].heads[head].value,
                large.criteria[0].heads[head].value, 2e-6);
  }
}

TEST(RankHeads, RefusesWhatCannotBeMeasured) {
  Context context({1, ""});
  const auto model = GoldenModel("gpt2");
  EXPECT_THROW(RankHeads(context, *model, {}, Everything()), Error);
  try {
    RankOptions options = Everything();
    options.pass.progress = [](std::string_view, double, double) {
      ADD_FAILURE() << "it ran";
    };
    RankHeads(context, *model, RandomExamples(1, 8, 64, 1), options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("at least two sequences"));
  }
  try {
    RankOptions options = Everything();
    options.job.by = {Criterion::kGradient};
    RankHeads(context, *GoldenModel("bert-headless"),
              RandomExamples(1, 8, 64, 1), options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("at least two sequences"));
  }
}

TEST(RankHeads, SaysWhatTheNormOfQueriesDoesToTheirWeights) {
  Context context({1, ""});
  RankOptions options = Everything();
  options.job.by = {Criterion::kWeightsQk};
  const auto notes = [&](const char* family) {
    return RankHeads(context, *GoldenModel(family), RandomExamples(2, 8, 64, 1),
                     options)
        .notes;
  };
  EXPECT_THAT(notes("qwen3"), testing::Contains(HasSubstr("norms queries")));
  EXPECT_THAT(notes("qwen2"), testing::IsEmpty());
}

TEST(Classify, ByPrecedence) {
  const std::vector<Interval> delta = {
      {0.5, 0.4, 0.6},       // critical
      {-0.1, -0.2, -0.05},   // negative
      {0, -0.001, 0.001},    // twin
      {0.005, 0.002, 0.02},  // backup
      {0, -0.001, 0.001},    // no role
      {0, -0.001, 0.001},    // a role
      {0.02, -0.3, 0.4},     // nobody knows
  };
  ClassEvidence evidence;
  evidence.scale = 2;
  evidence.delta = delta;
  evidence.negative = {true, true, false, false, false, false, false};
  evidence.has_twin = {false, false, true, false, false, false, true};
  evidence.backup = {true, false, true, true, false, false, false};
  evidence.has_role = {false, false, false, false, false, true, false};
  EXPECT_THAT(Classify(evidence),
              testing::ElementsAre(HeadClass::kCritical, HeadClass::kNegative,
                                   HeadClass::kRedundant, HeadClass::kBackup,
                                   HeadClass::kNoise, HeadClass::kAuxiliary,
                                   HeadClass::kAuxiliary));
}

}  // namespace
}  // namespace headwise::ranking_test
