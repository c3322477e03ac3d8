#include "headwise/runtime/pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "headwise/tensor/slice.h"

namespace headwise::pool_test {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::FloatNear;

// Three tokens of two channels.
const std::vector<float> kStates = {1, 4, 3, -2, 5, 1};

std::vector<float> Pooled(std::vector<Pooling> pooling) {
  std::vector<float> to;
  PoolStates(kStates, 2, pooling, to);
  return to;
}

TEST(PoolStates, GivesWhatEachModeIsCalled) {
  EXPECT_THAT(Pooled({Pooling::kCls}), ElementsAre(1, 4));
  EXPECT_THAT(Pooled({Pooling::kLast}), ElementsAre(5, 1));
  EXPECT_THAT(Pooled({Pooling::kMax}), ElementsAre(5, 4));
  EXPECT_THAT(Pooled({Pooling::kMean}), ElementsAre(3, 1));
  const auto root = static_cast<float>(std::sqrt(3.0));
  EXPECT_THAT(Pooled({Pooling::kMeanSqrt}),
              ElementsAre(FloatEq(9 / root), FloatEq(3 / root)));
  // (1 · 1 + 2 · 3 + 3 · 5) / 6, (4 − 4 + 3) / 6
  EXPECT_THAT(Pooled({Pooling::kWeightedMean}),
              ElementsAre(FloatEq(22.0f / 6), FloatEq(0.5f)));
}

TEST(PoolStates, PutsSeveralModesSideBySide) {
  EXPECT_THAT(Pooled({Pooling::kCls, Pooling::kMean}), ElementsAre(1, 4, 3, 1));
}

TEST(NormalizeRows, MakesRowsAsLongAsOneAndLeavesZeros) {
  VectorRows rows = {2, {3, 4, 0, 0}};
  NormalizeRows(rows);
  EXPECT_THAT(rows.values, ElementsAre(FloatEq(0.6f), FloatEq(0.8f), 0, 0));
}

TEST(RunSteps, MultipliesActivatesAndNormalizes) {
  const std::vector<float> weight = {1, 1, 0, 2, -1, 0};  // [3, 2]
  const std::vector<float> bias = {0, 1, 0};
  SentenceStep dense;
  dense.dense =
      Linear({{{.name = "w", .value = Reshaped(ViewOf(weight), {3, 2})},
               {.name = "b", .value = ViewOf(bias)}}},
             WeightLayout::kOutIn);
  dense.activated = true;
  dense.activation = Activation::kRelu;
  Context context({1, ""});
  const std::vector<SentenceStep> steps = {dense, {}};
  const VectorRows rows = RunSteps(context, steps, {2, {1, 2}});
  // relu(3, 5, −1) over √34
  const auto length = static_cast<float>(std::sqrt(34.0));
  EXPECT_EQ(rows.width, 3);
  EXPECT_THAT(rows.values, ElementsAre(FloatNear(3 / length, 1e-6f),
                                       FloatNear(5 / length, 1e-6f), 0));
}

}  // namespace
}  // namespace headwise::pool_test
