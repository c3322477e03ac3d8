// Training by ranks is that of one process, bit for bit.
#include "headwise/train/gradient_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "headwise/dist/thread_group.h"
#include "headwise/model/model_hash.h"
#include "headwise/train/training_run.h"

namespace headwise::gradient_tree_test {
namespace {

using testing::HasSubstr;

class RanksTrain : public TrainingRun {
 protected:
  TrainConfig InParts(const std::string& out, int64_t parts) const {
    TrainConfig config = Config(out);
    config.batch = 16;
    config.micro_batch = 2;
    config.parts = parts;
    config.steps = 8;
    config.heads = {{"gates", "hard_concrete"}};
    config.gate_penalty = 0.1;
    config.bucket = 500;  // a few a layer
    return config;
  }

  // stop_after: steps of this piece; 0: all.
  static TrainingRecord TrainOn(int ranks, const TrainConfig& config,
                                int64_t stop_after = 0) {
    TrainingRecord record;
    dist::RunRanks(ranks, [&](dist::Group& group) {
      Context context({1, ""});
      std::stop_source stop;
      RunOptions options;
      options.resume = true;
      options.group = &group;
      options.stop = stop.get_token();
      options.on_step = [&](const StepView& view) {
        const int64_t done = view.report.step + 1 - view.steps_before;
        // One rank asks, all stop.
        if (done == stop_after && group.is_first()) stop.request_stop();
      };
      RunResult result = RunTraining(context, config, options);
      EXPECT_EQ(result.finished, stop_after == 0);
      if (group.is_first()) record = std::move(result.record);
      group.Leave();
    });
    return record;
  }
};

TEST_F(RanksTrain, IsTheSameOnAnyNumberOfRanks) {
  const TrainingRecord one = TrainOn(1, InParts("one", 8));
  for (const int ranks : {2, 3, 4, 8}) {
    const std::string name = std::to_string(ranks);
    const TrainingRecord many = TrainOn(ranks, InParts(name, 8));
    EXPECT_EQ(many.losses, one.losses) << ranks;
    EXPECT_EQ(many.validation, one.validation) << ranks;
    EXPECT_EQ(many.tokens, one.tokens) << ranks;
    EXPECT_EQ(ModelHash(folder_ / name), ModelHash(folder_ / "one")) << ranks;
  }
}

TEST_F(RanksTrain, GoesOnOnAnotherNumberOfRanks) {
  const TrainingRecord one = TrainOn(1, InParts("one", 4));
  const TrainConfig pieces = InParts("pieces", 4);
  EXPECT_EQ(TrainOn(4, pieces, 3).step, 3);
  EXPECT_EQ(TrainOn(2, pieces, 2).step, 5);
  EXPECT_EQ(TrainOn(1, pieces).losses, one.losses);
  EXPECT_EQ(ModelHash(folder_ / "pieces"), ModelHash(folder_ / "one"));
}

TEST_F(RanksTrain, IsTheSameWithASharedOptimizer) {
  const TrainingRecord one = TrainOn(1, InParts("one", 8));
  const auto bytes = [](const TrainingRecord& record) {
    return record.machine.at("optimizer_bytes").get<int64_t>();
  };
  for (const int ranks : {2, 3, 4}) {
    const std::string name = std::to_string(ranks);
    TrainConfig config = InParts(name, 8);
    config.shard_optimizer = true;
    const TrainingRecord many = TrainOn(ranks, config);
    EXPECT_EQ(many.losses, one.losses) << ranks;
    EXPECT_EQ(many.validation, one.validation) << ranks;
    EXPECT_EQ(ModelHash(folder_ / name), ModelHash(folder_ / "one")) << ranks;
    EXPECT_LT(bytes(many), 1.1 * static_cast<double>(bytes(one)) / ranks);
  }
}

TEST_F(RanksTrain, GoesOnWithAnOptimizerThatIsSharedOrNot) {
  const TrainingRecord one = TrainOn(1, InParts("one", 4));
  TrainConfig pieces = InParts("pieces", 4);
  pieces.shard_optimizer = true;
  EXPECT_EQ(TrainOn(3, pieces, 2).step, 2);
  EXPECT_EQ(TrainOn(2, pieces, 2).step, 4);
  pieces.shard_optimizer = false;
  EXPECT_EQ(TrainOn(4, pieces, 2).step, 6);
  pieces.shard_optimizer = true;
  EXPECT_EQ(TrainOn(4, pieces).losses, one.losses);
  EXPECT_EQ(ModelHash(folder_ / "pieces"), ModelHash(folder_ / "one"));
}

TEST_F(RanksTrain, NeedsAPartForEachRank) {
  try {
    TrainOn(2, InParts("few", 1));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("at least 2 parts"));
  }
  EXPECT_THAT(ErrorOf(InParts("odd", 3)), HasSubstr("parts"));
}

// Whose gradients are complete in another order: two stacks that share their
// embeddings, gates that belong to no layer, layers that do not learn.
TEST_F(RanksTrain, IsTheSameForModelsOfEveryShape) {
  TrainConfig paired = InParts("paired", 4);
  paired.heads = Json::object();
  paired.task = TrainTask::kTranslation;
  paired.data = {folder_ / "pairs.tsv"};
  paired.model = {{"model_type", "marian"},
                  {"d_model", 16},
                  {"encoder_layers", 2},
                  {"decoder_layers", 2},
                  {"encoder_attention_heads", 2},
                  {"decoder_attention_heads", 2},
                  {"encoder_ffn_dim", 24},
                  {"decoder_ffn_dim", 24},
                  {"max_position_embeddings", 64},
                  {"eos_token_id", 2},
                  {"pad_token_id", 3},
                  {"decoder_start_token_id", 3}};
  TrainConfig mixed = InParts("mixed", 4);
  mixed.heads = {{"gates", "mixture"}, {"active_heads", 1}};
  mixed.model = {{"model_type", "gpt2"},
                 {"n_embd", 16},
                 {"n_layer", 2},
                 {"n_head", 2},
                 {"n_positions", 64}};
  TrainConfig frozen = InParts("frozen", 4);
  frozen.freeze = {"embedding", "layer.0"};
  for (TrainConfig config : {paired, mixed, frozen}) {
    config.steps = 4;
    const std::string out = config.out;
    const TrainingRecord one = TrainOn(1, config);
    config.out = out + "-by-ranks";
    config.bucket = 200;
    config.shard_optimizer = true;
    EXPECT_EQ(TrainOn(3, config).losses, one.losses) << out;
    EXPECT_EQ(ModelHash(config.out), ModelHash(out));
  }
}

TEST_F(RanksTrain, IsTheSameWithBucketsOfAnySize) {
  const auto seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 chance(seed);
  TrainConfig config = InParts("one", 6);
  config.batch = 12;
  const TrainingRecord one = TrainOn(1, config);
  for (int i = 0; i < 4; ++i) {
    config.bucket = 30 + static_cast<int64_t>(chance() % (50 << 2 * i));
    config.recompute = chance() % 2 == 0;
    const int ranks = 2 + static_cast<int>(chance() % 5);
    config.out = folder_ / std::to_string(i);
    EXPECT_EQ(TrainOn(ranks, config).losses, one.losses)
        << ranks << " ranks, bucket " << config.bucket;
    EXPECT_EQ(ModelHash(config.out), ModelHash(folder_ / "one"));
  }
}

}  // namespace
}  // namespace headwise::gradient_tree_test
