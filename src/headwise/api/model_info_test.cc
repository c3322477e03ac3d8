// What is told of a model besides running it.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "headwise/api/test_model.h"
#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"
#include "headwise/head_ref.h"
#include "headwise/head_weights.h"
#include "headwise/model.h"
#include "headwise/model_info.h"

namespace headwise::model_info_test {
namespace {

TEST(ReadModelInfo, GivesWhatTheOpenedModelSays) {
  const Transformer model = Novels();
  const ModelInfo read = ReadModelInfo(model.folder());
  const ModelInfo& info = model.info();
  EXPECT_EQ(read.name, info.name);
  EXPECT_EQ(read.predicts_tokens, info.predicts_tokens);
  EXPECT_TRUE(read.predicts_tokens);
  EXPECT_EQ(read.positions, "rotary");
  EXPECT_EQ(read.gates, "open");
  EXPECT_EQ(read.layers.size(), info.layers.size());
  EXPECT_EQ(read.head_dim, read.layers[0].head_dim);
  int64_t parameters = 0;
  for (const auto& [type, count] : read.types) parameters += count;
  EXPECT_EQ(parameters, read.parameters);
  EXPECT_GT(read.embedding_parameters, 0);
  EXPECT_THROW(ReadModelInfo("nowhere"), Error);
}

class OddModel : public ScratchFolderTest {};

TEST_F(OddModel, IsToldOfWhereWeightsAreNotTheConfigurations) {
  const Transformer model = Novels();
  std::filesystem::copy(model.folder() / "config.json", folder_);
  Tensor small(DType::kF32, {2, 2});
  SaveTensors(folder_ / "model.safetensors", {{"odd", small.view()}});
  EXPECT_THROW(Transformer{folder_}, Error);
  const ModelInfo info = ReadModelInfo(folder_);
  EXPECT_EQ(info.width, model.info().width);
  EXPECT_EQ(info.parameters, 4);
  EXPECT_FALSE(info.predicts_tokens);
  EXPECT_FALSE(ReadTextFrame(folder_));  // no tokenizer
}

TEST(SizesOfExperts, GivesEachMatrixAndItsRank) {
  const std::string goldens = HEADWISE_SOURCE "/tests/conformance/goldens/";
  Transformer model(goldens + "qwen2_moe");
  const ModelInfo& info = model.info();
  EXPECT_EQ(info.experts, 4);
  EXPECT_EQ(info.active_experts, 2);
  EXPECT_EQ(info.layers[0].feed_forward,
            2 * info.expert_width + info.shared_expert_width);
  const std::vector<ExpertSize> sizes = SizesOfExperts(model);
  ASSERT_EQ(sizes.size(), 2 * (4 + 1));
  for (const ExpertSize& size : sizes) {
    const int64_t hidden =
        size.expert < 0 ? info.shared_expert_width : info.expert_width;
    for (const MatrixSize& of : {size.gate, size.up}) {
      EXPECT_EQ(of.outputs, hidden);
      EXPECT_EQ(of.inputs, info.width);
      EXPECT_EQ(of.rank, hidden);  // random numbers
    }
    EXPECT_EQ(size.down.outputs, info.width);
    EXPECT_EQ(size.down.rank, hidden);
  }
  EXPECT_EQ(sizes[4].expert, -1);
  EXPECT_EQ(sizes[5].layer, 1);
  // Gate and up by turns.
  Transformer turns(goldens + "gpt_oss");
  EXPECT_EQ(SizesOfExperts(turns)[0].gate.outputs, turns.info().expert_width);
  Transformer dense = Novels();
  EXPECT_TRUE(SizesOfExperts(dense).empty());
}

TEST(ReadTextFrame, GivesWhatEncodeAdds) {
  const Transformer model = Novels();
  const auto frame = ReadTextFrame(model.folder());
  ASSERT_TRUE(frame);
  const Encoding encoded = model.Encode(kSentence);
  size_t added = 0;
  for (const uint8_t one : encoded.added) added += one;
  EXPECT_EQ(frame->before.size() + frame->after.size(), added);
  EXPECT_EQ(frame->before.size(), frame->before_pieces.size());
  EXPECT_FALSE(frame->why.empty());
  const auto none = ReadTextFrame(model.folder(), BosChoice::kNo);
  EXPECT_TRUE(none->before.empty());
}

TEST(CostOf, GrowsWithTheSquareOfTheTextInAttentionAlone) {
  const ModelInfo info = ReadModelInfo(Novels().folder());
  const TextCost one = CostOf(info, 100), two = CostOf(info, 200);
  EXPECT_GT(two.attention_flops, 3.9 * one.attention_flops);
  EXPECT_DOUBLE_EQ(two.mlp_flops, 2 * one.mlp_flops);
  EXPECT_DOUBLE_EQ(two.maps_bytes, 4 * one.maps_bytes);
  EXPECT_GT(one.flops(), one.head_flops);
}

TEST(SizesOfHeads, AreTheNormsOfTheProducts) {
  Transformer model = Novels();
  const std::vector<HeadSize> sizes = SizesOfHeads(model);
  ASSERT_EQ(sizes.size(), HeadsOf(model).size());
  const HeadMatrices weights = WeightsOfHead(model, sizes[3].head);
  const auto norm = [](const Tensor& matrix) {
    double sum = 0;
    for (int64_t i = 0; i < matrix.size(); ++i) {
      const double value = matrix.As<float>()[i];
      sum += value * value;
    }
    return std::sqrt(sum);
  };
  EXPECT_NEAR(sizes[3].qk_norm, norm(weights.qk), 1e-4 * sizes[3].qk_norm);
  EXPECT_NEAR(sizes[3].ov_norm, norm(weights.ov), 1e-4 * sizes[3].ov_norm);
  EXPECT_FALSE(sizes[3].query_norms);
  EXPECT_FALSE(sizes[3].gate);
}

}  // namespace
}  // namespace headwise::model_info_test
