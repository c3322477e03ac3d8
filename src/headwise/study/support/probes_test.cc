// Probes tell what states hold, and chance where they hold nothing.
#include "headwise/study/support/probes.h"

#include <gtest/gtest.h>

#include "headwise/study/support/story.h"
#include "headwise/study/support/tiny_model.h"

namespace headwise::probes_test {
namespace {

MadeSequence RandomTokens(Rng& rng) {
  std::vector<int32_t> ids;
  for (int i = 0; i < 32; ++i) {
    ids.push_back(static_cast<int32_t>(rng.Below(8)));
  }
  return NextToken(ids);
}

TEST(ProbesTest, ATokenIsToldFromItsEmbeddingAndItsNeighbourIsNot) {
  Context context({.threads = 2, .implementations = ""});
  TinyModel tiny(context, TinyGpt2({.vocabulary = 8, .context = 32}),
                 TinyTraining(1, 1));
  const TrainBatch train = MadeBatches(1, RandomTokens).Make(0, 40);
  const TrainBatch test = MadeBatches(2, RandomTokens).Make(0, 40);
  const std::vector<ProbeScores> scores =
      ProbeLayers(context, tiny.model(), train, test,
                  {NeighbourLabels("itself", train, test, 0, 8),
                   NeighbourLabels("next", train, test, 1, 8)});
  ASSERT_EQ(scores.size(), 2u);
  ASSERT_EQ(scores[0].right.size(), 3u) << "before and after two layers";
  EXPECT_GT(scores[0].right[0], 0.95);
  EXPECT_EQ(scores[0].DepthOfGain(), 0);
  EXPECT_NEAR(scores[1].best(), 0.125, 0.06) << "nobody can know it";
  EXPECT_NEAR(scores[1].chance, 0.125, 0.06);
}

TEST(ProbesTest, DepthIsWhereNineTenthsOfTheGainAre) {
  const ProbeScores scores = {.right = {0.1, 0.3, 0.92, 1.0, 0.8},
                              .chance = 0.1};
  EXPECT_EQ(scores.DepthOfGain(), 2);
  EXPECT_EQ(scores.best(), 1.0);
}

TEST(ProbesTest, LabelsStayWithinTheirSequence) {
  TrainBatch batch;
  batch.ids = {5, 6, 5, 7, 5, 6};
  batch.batch = MakeBatch(std::vector<int64_t>{3, 3});
  const ProbeLabels labels = NeighbourLabels("before", batch, batch, -1, 2);
  // 5 is most frequent, then 6; 7 is not among two.
  EXPECT_EQ(labels.train,
            (std::vector<int32_t>{kNoLabel, 0, 1, kNoLabel, kNoLabel, 0}));
}

}  // namespace
}  // namespace headwise::probes_test
