// Training by ranks is that of one process, bit for bit.
#include "headwise/train/gradient_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "headwise/dist/thread_group.h"
#include "headwise/model/family.h"
#include "headwise/model/model_hash.h"
#include "headwise/train/training_run.h"

namespace headwise {
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

TEST_F(RanksTrain, NeedsAPartForEachRank) {
  try {
    TrainOn(2, InParts("few", 1));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("at least 2 parts"));
  }
  EXPECT_THAT(ErrorOf(InParts("odd", 3)), HasSubstr("parts"));
}

// Each part adds its number to every gradient; the tree's depth shows in none.
TEST_F(RanksTrain, AddsEveryPartOnce) {
  for (const int64_t parts : {1, 2, 3, 5, 8}) {
    dist::RunRanks(
        static_cast<int>(std::min<int64_t>(parts, 3)), [&](dist::Group& group) {
          Context context({1, ""});
          Json json = Config("none").model;
          json["vocab_size"] = 260;
          const auto store =
              ParameterStore::Fresh(ReadConfig(json, "test"), {});
          const auto model = BuildModel(ReadConfig(json, "test"), store);
          ASSERT_GT(store->buffers()[0].gradient.size(), 0);
          const GradientTree tree(&group, parts);
          std::vector<int64_t> called;
          tree.Sum(context, *store, [&](int64_t part) {
            called.push_back(part);
            for (ParameterStore::Buffer& buffer : store->buffers()) {
              for (int64_t i = 0; i < buffer.gradient.size(); ++i) {
                buffer.gradient.As<float>()[i] += static_cast<float>(part + 1);
              }
            }
          });
          EXPECT_EQ(std::ssize(called), tree.end() - tree.begin());
          for (ParameterStore::Buffer& buffer : store->buffers()) {
            for (int64_t i = 0; i < buffer.gradient.size(); ++i) {
              ASSERT_EQ(buffer.gradient.As<float>()[i],
                        static_cast<float>(parts * (parts + 1) / 2));
            }
          }
          group.Leave();
        });
  }
}

}  // namespace
}  // namespace headwise
