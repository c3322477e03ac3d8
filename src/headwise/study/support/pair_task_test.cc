// The pair task asks for what it says.
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

}  // namespace
}  // namespace headwise::pair_task_test
