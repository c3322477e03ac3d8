// The shipped models beside each other.
#include "headwise/study/compare/trained_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "headwise/error.h"

namespace headwise::trained_comparison_test {
namespace {

using testing::HasSubstr;

constexpr char kSentence[] = "The cat sat on the mat";

std::filesystem::path AssetFolder(const char* name) {
  return std::filesystem::path(HEADWISE_SOURCE) / "assets" / name;
}

std::vector<std::filesystem::path> Shipped() {
  return {AssetFolder("novels-one-head"), AssetFolder("novels")};
}

TEST(TrainedComparisonTest, OneHeadBesideEightOfOneWidth) {
  Context context({.threads = 1, .implementations = ""});
  const Comparison comparison =
      CompareTrained(context, kSentence, {.models = Shipped()});
  EXPECT_TRUE(comparison.trained);
  ASSERT_EQ(comparison.sets.size(), 2u);
  EXPECT_EQ(comparison.sets[0].tokens.front(), "<bos>");
  EXPECT_TRUE(SameTokens(comparison));
  EXPECT_TRUE(EqualWeights(comparison));
  const ComparedHeads &one = comparison.sets[0], &many = comparison.sets[1];
  EXPECT_EQ(one.heads, 1);
  EXPECT_EQ(many.heads, 8);
  EXPECT_EQ(one.head_dim, 8 * many.head_dim);
  EXPECT_EQ(one.parameters, many.parameters);
  EXPECT_NEAR(one.distinct, 1, 1e-6);
  EXPECT_GT(many.distinct, 1.5);
  const auto words = static_cast<int64_t>(many.tokens.size());
  for (const ComparedHeads& set : comparison.sets) {
    for (const HeadMap& map : set.maps) {
      for (int64_t r = 0; r < words; ++r) {
        double sum = 0;
        for (int64_t c = 0; c <= r; ++c) sum += map.weights(r, c);
        EXPECT_NEAR(sum, 1, 1e-5);
        for (int64_t c = r + 1; c < words; ++c) {
          EXPECT_EQ(map.weights(r, c), 0);
        }
      }
    }
  }
}

TEST(TrainedComparisonTest, WithoutALayerTheOneThatDiffersMost) {
  Context context({.threads = 1, .implementations = ""});
  const auto distinct = [&](std::optional<int64_t> layer) {
    return CompareTrained(context, kSentence,
                          {.models = Shipped(), .layer = layer})
        .sets.back()
        .distinct;
  };
  double most = 0;
  for (int64_t layer = 0; layer < 6; ++layer) {
    most = std::max(most, distinct(layer));
  }
  EXPECT_EQ(distinct(std::nullopt), most);
}

// Their tokens, heads and numbers of layers are not the same.
TEST(TrainedComparisonTest, AnyModelsStandBesideEachOther) {
  Context context({.threads = 1, .implementations = ""});
  const Comparison comparison =
      CompareTrained(context, kSentence,
                     {.models = {AssetFolder("planted"), AssetFolder("novels")},
                      .named = true,
                      .roles = true});
  ASSERT_EQ(comparison.sets.size(), 2u);
  const ComparedHeads &planted = comparison.sets[0],
                      &novels = comparison.sets[1];
  EXPECT_EQ(planted.model, "planted");
  EXPECT_EQ(novels.model, "novels");
  EXPECT_LT(planted.layer, 2);
  EXPECT_FALSE(SameTokens(comparison));
  EXPECT_TRUE(EqualWeights(comparison));  // 4 × 256² in the layers shown
  EXPECT_THAT(comparison.about, HasSubstr("planted, layer "));
  EXPECT_THAT(comparison.about, HasSubstr(" of 6, counted from 0"));
  EXPECT_THAT(comparison.about, HasSubstr("tokens of its own"));
  for (const ComparedHeads& set : comparison.sets) {
    EXPECT_EQ(set.roles.size(), static_cast<size_t>(set.heads));
    EXPECT_EQ(set.tokens.size(), static_cast<size_t>(set.average.rows));
  }
  const Comparison first = CompareTrained(
      context, kSentence,
      {.models = {AssetFolder("planted")}, .layer = 0, .roles = true});
  EXPECT_EQ(first.sets[0].roles[0], "previous-token");
}

TEST(TrainedComparisonTest, RefusesWhatCannotStandBesideEachOther) {
  Context context({.threads = 1, .implementations = ""});
  const auto message = [&](const std::string& sentence,
                           std::vector<std::filesystem::path> models,
                           std::optional<int64_t> layer) {
    try {
      CompareTrained(context, sentence, {.models = models, .layer = layer});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(message(kSentence, Shipped(), 6), HasSubstr("from 0 to 5"));
  EXPECT_THAT(message("", Shipped(), {}), HasSubstr("at least two tokens"));
  EXPECT_THAT(message(kSentence, {}, {}), HasSubstr("at least one model"));
  std::string many;
  for (int i = 0; i < 80; ++i) many += "word ";
  EXPECT_THAT(message(many, Shipped(), {}), HasSubstr("at most 64 tokens"));
}

}  // namespace
}  // namespace headwise::trained_comparison_test
