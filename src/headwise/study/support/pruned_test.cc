// Small models that lose heads give what the masked ones give.
#include "headwise/study/support/pruned.h"

#include <gtest/gtest.h>

#include "headwise/study/support/story.h"

namespace headwise::pruned_test {
namespace {

HeadSet Heads(int64_t layer, std::initializer_list<int64_t> heads) {
  HeadSet set;
  for (const int64_t head : heads) {
    set.push_back({AttentionKind::kSelf, layer, head});
  }
  return set;
}

class PrunedTest : public testing::TestWithParam<HeadSet> {};

TEST_P(PrunedTest, AModelWithoutHeadsIsTheMaskedOne) {
  Context context({.threads = 1, .implementations = ""});
  const Json config = StoryLlama({.layers = 2, .heads = 4, .width = 32});
  const TinyModel whole(context, config, StoryTraining(1, 10));
  const auto examples =
      StoryExamples([](Rng& rng) { return NextToken(MakeStory(rng)); }, 1, 4);
  const JudgedText judged(context, whole.model(), examples, {});
  const std::vector<HeadSet> gone = {GetParam()};
  const auto smaller = ModelWithout(context, whole, config, gone[0]);
  EXPECT_EQ(AllHeads(*smaller).size(), 8 - gone[0].size());
  EXPECT_NEAR(judged.Of(*smaller).closed.value, LossesClosed(judged, gone)[0],
              1e-5);
}

INSTANTIATE_TEST_SUITE_P(Sets, PrunedTest,
                         testing::Values(HeadSet(), Heads(0, {1}),
                                         Heads(1, {0, 3}),
                                         Heads(1, {0, 1, 2, 3})));

TEST(ShareWithinTest, FindsTheFirstCrossing) {
  const std::vector<SharePoint> points = {{0, 1}, {1, 3}, {0.5, 1.2}};
  EXPECT_NEAR(ShareWithin(points, 1.1), 0.25, 1e-12);
  EXPECT_NEAR(ShareWithin(points, 2.1), 0.75, 1e-12);
  EXPECT_EQ(ShareWithin(points, 3), 1);
  EXPECT_EQ(ShareWithin(points, 0.9), 0);
}

}  // namespace
}  // namespace headwise::pruned_test
