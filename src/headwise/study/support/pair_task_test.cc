// The pair task asks for what it says, and closed heads are told apart.
#include "headwise/study/support/pair_task.h"

#include <gtest/gtest.h>

#include "headwise/ops/loss/loss.h"

namespace headwise {
namespace {

TEST(PairTask, AnswersAreTheLettersAtTheNamedPlaces) {
  constexpr int64_t places[][2] = {{1, 2}, {3, 4}, {5, 6}, {2, 5}};
  Rng rng(1);
  const MadeSequence sequence = MakePairs(rng);
  ASSERT_EQ(sequence.ids.size(), kPairBlock * kPairBlocks);
  ASSERT_EQ(sequence.targets.size(), sequence.ids.size());
  int64_t answers = 0;
  for (size_t i = 0; i < sequence.ids.size(); ++i) {
    if (sequence.targets[i] == kIgnoreTarget) continue;
    ++answers;
    EXPECT_EQ(sequence.targets[i], sequence.ids[i + 1]);
    const int64_t* place = places[sequence.ids[i] - 8];
    EXPECT_EQ(sequence.targets[i],
              12 + 8 * sequence.ids[i - place[0]] + sequence.ids[i - place[1]]);
  }
  EXPECT_EQ(answers, kPairBlocks);
}

TEST(PairTask, HeadsThatWriteNothingAreWorthNothing) {
  Context context({1, ""});
  TinyModel tiny(context, PairModel(1, 4), PairTraining(1, 1));
  const TensorView output =
      tiny.store().entries().at("model.layers.0.self_attn.o_proj.weight").value;
  // Columns of head 2 [d, heads · 8].
  for (int64_t row = 0; row < 64; ++row) {
    for (int64_t i = 16; i < 24; ++i) output.As<float>()[row * 32 + i] = 0;
  }
  const HeadWorth worth = WorthOfHeads(context, tiny.model());
  ASSERT_EQ(worth.single.size(), 4);
  EXPECT_EQ(worth.single[2], 0);
  EXPECT_NE(worth.single[1], 0);
  EXPECT_NE(worth.all, 0);
}

}  // namespace
}  // namespace headwise
