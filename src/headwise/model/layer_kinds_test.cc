// A model whose layers differ: widths of heads, sink logits, output gates, keys
// that are values and keys of an earlier layer. Backward by finite differences.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "headwise/error.h"
#include "headwise/model/layer_kinds_for_test.h"
#include "headwise/model/model.h"
#include "headwise/model/room.h"
#include "headwise/model/sequence_pass.h"
#include "headwise/model/summary.h"
#include "headwise/ops/copy/copy.h"

namespace headwise::model_tests {
namespace {

using nn_test::kWidth;

const std::vector<int32_t> kIds = {3, 1, 4, 1, 5, 9, 2};

class LayerKinds : public testing::Test {
 protected:
  // Final states and, by them, gradients of a pass; their sum with r.
  double Pass(bool recompute, bool backward) {
    const SequenceBatch batch = MakeBatch(std::vector<int64_t>{4, 3});
    SequencePass pass(
        model_,
        {.ids = kIds, .batch = &batch, .keep = true, .recompute = recompute});
    Tensor x(DType::kF32, {7, kWidth});
    pass.Forward(context_, x.view());
    if (backward) {
      Tensor dx(DType::kF32, {7, kWidth});
      Copy(context_, r_.view(), dx.view());
      pass.Backward(context_, dx.view());
    }
    return nn_test::Dot(x, r_);
  }

  Context context_{{2, ""}};
  nn_test::TestValues values_;
  Model model_{PartsOfLayerKinds(values_)};
  const Tensor r_ = nn_test::RandomTensor({7, kWidth}, 3);
};

TEST_F(LayerKinds, BackwardIsTheSlope) {
  Pass(false, true);
  values_.Check([&] { return Pass(false, false); }, 2);
}

// Blocks that run again find the keys that an earlier one left.
TEST_F(LayerKinds, RunningBlocksAgainChangesNoBit) {
  const std::vector<std::string> names = {
      "tokens", "layer.0.attention.s", "layer.0.attention.qkv.1.weight",
      "layer.0.attention.qkv.2.weight", "layer.2.attention.g.0.weight"};
  std::vector<std::vector<float>> whole;
  Pass(false, true);
  for (const std::string& name : names) {
    Tensor& gradient = values_.gradient(name);
    whole.push_back(ToVector<float>(context_, gradient.view()));
    Fill(context_, 0, gradient.view());
  }
  Pass(true, true);
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(ToVector<float>(context_, values_.gradient(names[i]).view()),
              whole[i])
        << names[i];
  }
}

TEST_F(LayerKinds, LayerByLayerGivesWhatTheRunGives) {
  const SequenceBatch batch = MakeBatch(std::vector<int64_t>{7});
  StackInput input;
  input.ids = kIds;
  input.batch = &batch;
  Tensor x(DType::kF32, {7, kWidth}), y(DType::kF32, {7, kWidth});
  model_.Run(context_, model_.stack(), input, x.view());
  model_.Embed(context_, model_.stack(), input, y.view());
  SharedKeys shared;
  input.shared = &shared;
  for (int64_t layer = 0; layer < 3; ++layer) {
    model_.RunLayer(context_, model_.stack(), layer, input, y.view());
  }
  model_.Finish(context_, model_.stack(), nullptr, y.view());
  EXPECT_EQ(ToVector<float>(context_, y.view()),
            ToVector<float>(context_, x.view()));
}

TEST_F(LayerKinds, CostsAreOfEachLayersWidths) {
  const RunCost cost = CostOf(model_.config(), 3);
  // Keys and values of layers 0 and 1 alone.
  EXPECT_EQ(cost.cache_bytes, 4 * 3 * (2 * (4 + 6) + 1 * (6 + 6)));
  // W_Q and W_O of all, W_K and W_V of the first two.
  const double columns = (4 + 2) * (4 + 6) + (2 + 1) * (6 + 6) + 2 * (4 + 6);
  EXPECT_EQ(cost.projection_flops, 2 * 3 * kWidth * columns);
  EXPECT_EQ(CallNumbers(model_.config(), 3), 3 * (4 * 4 + 2 * (4 + 6)));
}

TEST_F(LayerKinds, SinkLogitsAndGatesAreWeightsOfTheirLayers) {
  std::vector<std::string> names;
  for (const Parameter* weight :
       model_.stack().blocks[0].steps()[0].weights()) {
    names.push_back(weight->name);
  }
  EXPECT_THAT(names, testing::Contains("layer.0.attention.s"));
  const auto linears = model_.stack().blocks[2].linears();
  EXPECT_TRUE(
      std::any_of(linears.begin(), linears.end(), [](const Linear* linear) {
        return linear->weight().name == "layer.2.attention.g.0.weight";
      }));
}

TEST(LayerKindsTest, KeysOfALayerThatDoesNotShareThemAreRefused) {
  nn_test::TestValues values;
  Model::Parts parts = PartsOfLayerKinds(values);
  std::swap(parts.stack.blocks[0], parts.stack.blocks[1]);
  try {
    const Model model(std::move(parts));
    ADD_FAILURE() << "built";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("layer.2.attention"));
  }
}

}  // namespace
}  // namespace headwise::model_tests
