// Advice divides the width, and suits small, large and long models.
#include "headwise/study/advice/head_advice.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "headwise/error.h"

namespace headwise::head_advice_test {
namespace {

TEST(HeadAdviceTest, SuitsTheSizeOfTheModel) {
  EXPECT_EQ(RecommendHeads({768, 12, 1024}).heads, 12);
  const HeadAdvice large = RecommendHeads({8192, 80, 8192});
  EXPECT_EQ(large.heads, 64);
  EXPECT_EQ(large.kv_heads, 8);
  const HeadAdvice longer = RecommendHeads({1024, 24, 131072});
  EXPECT_EQ(longer.head_dim, 128);
  // keys and values, bf16
  EXPECT_EQ(longer.cache_bytes,
            2.0 * 2 * 24 * 131072 *
                static_cast<double>(longer.kv_heads * longer.head_dim));
}

// What is advised at a width that was measured is what was best there.
TEST(HeadAdviceTest, AgreesWithWhatWasMeasured) {
  ASSERT_FALSE(MeasuredSweeps().empty());
  for (const HeadSweep& sweep : MeasuredSweeps()) {
    const HeadAdvice advice = RecommendHeads({sweep.width, 2, 256});
    ASSERT_EQ(advice.sweep, &sweep);
    double chosen = 1e9, least = 1e9;
    for (const HeadSweep::Point& point : sweep.points) {
      least = std::min(least, point.loss);
      if (point.heads == advice.heads) chosen = point.loss;
    }
    EXPECT_LE(chosen, least + sweep.tie) << "width " << sweep.width;
  }
  EXPECT_EQ(RecommendHeads({256, 6, 512}).heads, 4);
  EXPECT_EQ(RecommendHeads({128, 2, 64}).heads, 4);
  EXPECT_EQ(RecommendHeads({128, 2, 64}).basis, AdviceBasis::kMeasured);
}

TEST(HeadAdviceTest, SaysWhereNothingWasMeasured) {
  for (const ModelSize& size :
       {ModelSize{8192, 80, 8192}, ModelSize{128, 6, 131072}}) {
    const HeadAdvice advice = RecommendHeads(size);
    EXPECT_EQ(advice.basis, AdviceBasis::kConvention);
    EXPECT_NE(advice.reason.find("not measured here"), std::string::npos);
  }
  EXPECT_EQ(RecommendHeads({768, 12, 1024}).basis, AdviceBasis::kPublished);
}

TEST(HeadAdviceTest, DividesTheWidthWhereSomethingNearTheUsualSizeDoes) {
  for (int64_t width = 1; width <= 1200; ++width) {
    const HeadAdvice advice = RecommendHeads({width, 4, 512});
    ASSERT_GE(advice.heads, 1);
    ASSERT_LE(advice.heads * advice.head_dim, width);
    ASSERT_EQ(advice.heads % advice.kv_heads, 0);
  }
  EXPECT_EQ(RecommendHeads({100, 4, 512}).head_dim, 25);
  EXPECT_EQ(RecommendHeads({101, 4, 512}).head_dim, 25);  // a prime
}

TEST(HeadAdviceTest, ReadsThreeNumbersAndNothingElse) {
  const ModelSize size = ParseModelSize("768,12,1024");
  EXPECT_EQ(size.width, 768);
  EXPECT_EQ(size.layers, 12);
  EXPECT_EQ(size.tokens, 1024);
  for (const char* bad : {"", "768", "768,12", "768,12,", "768,12,x",
                          "768,12,10,4", "768;12;10", "99999999999999999999"}) {
    EXPECT_THROW(ParseModelSize(bad), Error) << bad;
  }
  EXPECT_THROW(RecommendHeads({0, 1, 1}), Error);
  EXPECT_THROW(RecommendHeads({64, -1, 1}), Error);
}

}  // namespace
}  // namespace headwise::head_advice_test
