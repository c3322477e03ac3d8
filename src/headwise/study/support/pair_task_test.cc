// The pair task asks for what it says, and closed heads are told apart.
#include "headwise/study/support/pair_task.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "headwise/ops/loss/loss.h"

namespace headwise::pair_task_test {
namespace {

TEST(PairTask, AnswersAreTheLettersAtTheNamedPlaces) {
  Rng rng(1);
  const MadeSequence sequence = MakePairs(rng);
  ASSERT_EQ(sequence.ids.size(), kPairBlock * kPairBlocks);
  ASSERT_EQ(sequence.targets.size(), sequence.ids.size());
  int64_t answers = 0;
  for (size_t i = 0; i < sequence.ids.size(); ++i) {
    if (sequence.targets[i] == kIgnoreTarget) continue;
    ++answers;
    EXPECT_EQ(sequence.targets[i], sequence.ids[i + 1]);
    const PairPlaces places = PlacesOf(sequence.ids[i] - kPairLetters);
    EXPECT_EQ(sequence.targets[i], kPairLetters + kPairMarkers +
                                       8 * sequence.ids[i - places.first] +
                                       sequence.ids[i - places.second]);
  }
  EXPECT_EQ(answers, kPairBlocks);
}

// Thirty markers in a row name every ordered pair of different places once.
TEST(PairTask, MarkersNameAllPairsOfPlaces) {
  std::set<std::pair<int64_t, int64_t>> pairs;
  for (int64_t marker = 0; marker < 30; ++marker) {
    const PairPlaces places = PlacesOf(marker);
    EXPECT_NE(places.first, places.second);
    for (const int64_t place : {places.first, places.second}) {
      EXPECT_GE(place, 1);
      EXPECT_LE(place, kPairPlaces);
    }
    pairs.insert({places.first, places.second});
  }
  EXPECT_EQ(pairs.size(), 30u);
}

TEST(PairTask, HeadsThatWriteNothingAreWorthNothing) {
  Context context({1, ""});
  TinyModel tiny(context, PairModel(1, 4), PairTraining(1, 1));
  const TensorView output =
      tiny.store().entries().at("model.layers.0.self_attn.o_proj.weight").value;
  // Columns of head 2 [d, heads · 8].
  for (int64_t row = 0; row < 32; ++row) {
    for (int64_t i = 16; i < 24; ++i) output.As<float>()[row * 32 + i] = 0;
  }
  const HeadWorth worth = WorthOfHeads(context, tiny.model());
  ASSERT_EQ(worth.single.size(), 4);
  EXPECT_EQ(worth.single[2], 0);
  EXPECT_NE(worth.single[1], 0);
  EXPECT_NE(worth.all, 0);
}

}  // namespace
}  // namespace headwise::pair_task_test
