#include "headwise/study/compare/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "headwise/base/distribution.h"
#include "headwise/error.h"

namespace headwise::comparison_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kSentence[] = "The cat sat on the mat";

TEST(ComparisonTest, SplitsWordsAndPunctuation) {
  EXPECT_THAT(SplitWords("It's tasty, isn't it?"),
              ElementsAre("It's", "tasty", ",", "isn't", "it", "?"));
  EXPECT_THAT(SplitWords(" \t\n"), ElementsAre());
  EXPECT_THAT(SplitWords("Füße 猫"), ElementsAre("Füße", "猫"));
}

TEST(ComparisonTest, OneHeadLosesNothingAndManyDo) {
  Context context({.threads = 1, .implementations = ""});
  const Comparison comparison = CompareHeads(context, kSentence, {});
  ASSERT_EQ(comparison.sets.size(), 2u);
  const ComparedHeads &one = comparison.sets[0], &many = comparison.sets[1];
  EXPECT_EQ(one.maps.size(), 1u);
  EXPECT_NEAR(one.lost, 0, 1e-6);
  EXPECT_NEAR(one.distinct, 1, 1e-6);
  EXPECT_EQ(many.maps.size(), 8u);
  EXPECT_GT(many.lost, 0.05);
  EXPECT_GT(many.distinct, 1);
  EXPECT_LT(many.distinct, 8);
  EXPECT_EQ(one.parameters, many.parameters);
  // Entropy of the mixture = mean entropy + what the mixture loses.
  EXPECT_NEAR(many.average_entropy, many.entropy + many.lost, 1e-5);
}

TEST(ComparisonTest, KeptAndLostFollowTheMaps) {
  Context context({.threads = 1, .implementations = ""});
  const Comparison comparison = CompareHeads(context, kSentence, {});
  const ComparedHeads& many = comparison.sets[1];
  for (int64_t w = 0; w < 6; ++w) {
    std::vector<std::vector<double>> rows;
    for (const HeadMap& map : many.maps) {
      rows.emplace_back(&map.weights.values[w * 6],
                        &map.weights.values[w * 6] + 6);
    }
    const std::vector<double> mean = Mean(rows);
    double lost = 0;
    int64_t kept = 0;
    const auto top = std::max_element(mean.begin(), mean.end()) - mean.begin();
    for (const std::vector<double>& row : rows) {
      lost += KlDivergence(row, mean) / 8;
      kept += std::max_element(row.begin(), row.end()) - row.begin() == top;
    }
    EXPECT_NEAR(many.words[w].lost, lost, 1e-9);
    EXPECT_NEAR(many.words[w].distinct, std::exp(lost), 1e-9);
    EXPECT_EQ(many.words[w].average_favourite, top);
    EXPECT_EQ(many.words[w].kept, kept);
  }
}

TEST(ComparisonTest, SameSeedSameMaps) {
  Context context({.threads = 1, .implementations = ""});
  const Comparison a = CompareHeads(context, kSentence, {});
  const Comparison b = CompareHeads(context, kSentence, {});
  ComparisonOptions other;
  other.seed = 2;
  const Comparison c = CompareHeads(context, kSentence, other);
  EXPECT_EQ(MaxDifference(a.sets[1].average, b.sets[1].average), 0);
  EXPECT_GT(MaxDifference(a.sets[1].average, c.sets[1].average), 0.01);
}

TEST(ComparisonTest, CausalWordsDoNotSeeAhead) {
  Context context({.threads = 1, .implementations = ""});
  ComparisonOptions options;
  options.causal = true;
  const Comparison comparison = CompareHeads(context, kSentence, options);
  for (const ComparedHeads& set : comparison.sets) {
    for (int64_t r = 0; r < 6; ++r) {
      for (int64_t c = r + 1; c < 6; ++c) EXPECT_EQ(set.average(r, c), 0);
    }
    EXPECT_TRUE(std::isfinite(set.lost));
  }
}

TEST(ComparisonTest, RefusesWhatCannotBeCompared) {
  Context context({.threads = 1, .implementations = ""});
  auto message = [&](const std::string& sentence, ComparisonOptions options) {
    try {
      CompareHeads(context, sentence, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return std::string(error.what());
    }
    return std::string();
  };
  ComparisonOptions options;
  EXPECT_THAT(message("", options), HasSubstr("at least one word"));
  EXPECT_THAT(message(" \n", options), HasSubstr("at least one word"));
  std::string many_words;
  for (int i = 0; i < 65; ++i) many_words += "word ";
  EXPECT_THAT(message(many_words, options), HasSubstr("at most 64 words"));
  options.heads = {0};
  EXPECT_THAT(message(kSentence, options), HasSubstr("head counts from 1"));
  options.heads = {1, 7};
  EXPECT_THAT(message(kSentence, options), HasSubstr("64 / 7 leaves 1"));
  options.heads = {};
  EXPECT_NE(message(kSentence, options), "");
}

}  // namespace
}  // namespace headwise::comparison_test
