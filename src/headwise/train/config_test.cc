#include "headwise/train/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "headwise/base/atomic_file.h"
#include "headwise/base/fields.h"
#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"
#include "headwise/train/schedule.h"

namespace headwise::config_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const char* const kSmall =
    R"({"out": "o", "data": ["d"], "tokenizer": "t",
        "model": {"model_type": "llama", "hidden_size": 64}})";

class TrainConfigFile : public ScratchFolderTest {
 protected:
  std::filesystem::path Written(const std::string& text) const {
    const std::filesystem::path file = folder_ / "train_config.json";
    WriteFileAtomically(file, text);
    return file;
  }
  std::string ErrorOf(const std::string& text,
                      const std::vector<std::string>& settings = {}) const {
    try {
      ReadTrainConfig(Written(text), settings);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(TrainConfigFile, ReadsAFileAndSettingsOverIt) {
  const TrainConfig config = ReadTrainConfig(
      Written(kSmall), {"steps=7", "model.hidden_size=32", "schedule=constant",
                        "data=[\"a\",\"b\"]"});
  EXPECT_EQ(config.steps, 7);
  EXPECT_EQ(config.model["hidden_size"], 32);
  EXPECT_EQ(config.model["model_type"], "llama");
  EXPECT_EQ(config.schedule, RateSchedule::kConstant);
  EXPECT_THAT(config.data, ElementsAre("a", "b"));
}

TEST_F(TrainConfigFile, NamesTheNearestKnownKey) {
  EXPECT_THAT(ErrorOf(R"({"warmpu": 3})"), HasSubstr("\"warmup\""));
  EXPECT_THAT(ErrorOf(kSmall, {"rat=1"}), HasSubstr("\"rate\""));
}

TEST_F(TrainConfigFile, RefusesWhatMakesNoSense) {
  EXPECT_THAT(ErrorOf(kSmall, {"task=lm"}),
              HasSubstr("task: causal_lm, masked_lm, translation or "
                        "classification; found \"lm\""));
  EXPECT_THAT(ErrorOf(kSmall, {"schedule=3"}),
              HasSubstr("schedule: cosine, inverse_sqrt or constant"));
  EXPECT_THAT(ErrorOf(kSmall, {"save_type=f16"}),
              HasSubstr("save_type: f32 or bf16"));
  EXPECT_THAT(ErrorOf(kSmall, {"batch=7", "micro_batch=2"}),
              HasSubstr("divisor of batch"));
  // Products with micro_batch that are 0, and batch, in 64 bits.
  for (const char* parts : {"parts=4611686018427387904", "parts=0",
                            "parts=2305843009213693953", "parts=3"}) {
    EXPECT_THAT(ErrorOf(kSmall, {"batch=8", "micro_batch=8", parts}),
                HasSubstr("parts: batch / (parts"))
        << parts;
  }
  EXPECT_EQ(ErrorOf(kSmall, {"batch=8", "micro_batch=2", "parts=4"}), "");
  EXPECT_THAT(ErrorOf(kSmall, {"steps=many"}), HasSubstr("steps"));
  EXPECT_THAT(ErrorOf(kSmall, {"dropout=1"}), HasSubstr("[0, 1)"));
  EXPECT_THAT(ErrorOf(kSmall, {"steps=2.5"}), HasSubstr("steps"));
  EXPECT_THAT(ErrorOf(kSmall, {"seed=-1"}), HasSubstr("seed"));
  EXPECT_THAT(ErrorOf(kSmall, {"task=masked_lm", "mask_share=0"}),
              HasSubstr("mask_share"));
  EXPECT_THAT(ErrorOf(kSmall, {"steps"}), HasSubstr("key=value"));
  EXPECT_THAT(ErrorOf(kSmall, {"steps=4611686018427387904"}),
              HasSubstr("steps from 1 to 2^40"));
  EXPECT_THAT(ErrorOf(kSmall, {"repeat_change=2"}), HasSubstr("repeat_change"));
  EXPECT_THAT(ErrorOf(R"({"out": "o", "tokenizer": "t", "model": {"a": 1}})"),
              HasSubstr("data"));
}

TEST_F(TrainConfigFile, MayDescribeTheModelThatItStartsFrom) {
  EXPECT_EQ(ErrorOf(kSmall, {"start=m"}), "");
  EXPECT_EQ(ErrorOf(kSmall, {"start=m", "model={}"}), "");
  EXPECT_THAT(ErrorOf(kSmall, {"model={}"}),
              HasSubstr("model: a configuration, unless start"));
}

TEST_F(TrainConfigFile, ListsWhatChanged) {
  const TrainConfig before = ReadTrainConfig(Written(kSmall), {});
  const TrainConfig after = ReadTrainConfig(
      Written(kSmall), {"seed=9", "rate=0.5", "save_every=3", "out=p"});
  EXPECT_THAT(Differences(FieldsToJson(before), before), ElementsAre());
  EXPECT_THAT(Differences(FieldsToJson(before), after),
              ElementsAre("rate: 0.001, now 0.5", "seed: 1, now 9"));
}

TEST(Schedule, RisesThenFalls) {
  TrainConfig config;
  config.rate = 1;
  config.warmup = 10;
  config.steps = 110;
  EXPECT_DOUBLE_EQ(RateAt(config, 0), 0.1);
  EXPECT_DOUBLE_EQ(RateAt(config, 9), 1);
  EXPECT_NEAR(RateAt(config, 59), 0.55, 1e-12);  // half of the cosine
  EXPECT_NEAR(RateAt(config, 109), 0.1, 1e-12);
  config.schedule = RateSchedule::kInverseSqrt;
  EXPECT_DOUBLE_EQ(RateAt(config, 39), 0.5);
  config.schedule = RateSchedule::kConstant;
  EXPECT_DOUBLE_EQ(RateAt(config, 109), 1);
}

TEST(HeadDropoutAt, FollowsItsSchedule) {
  TrainConfig config;
  config.steps = 11;
  config.warmup = 4;
  config.head_dropout = 0.4;
  using enum HeadDropoutSchedule;
  auto at = [&](HeadDropoutSchedule schedule, int64_t step) {
    config.head_dropout_schedule = schedule;
    return HeadDropoutAt(config, step);
  };
  EXPECT_EQ(at(kConstant, 0), 0.4);
  EXPECT_EQ(at(kConstant, 10), 0.4);
  EXPECT_EQ(at(kLinear, 0), 0);
  EXPECT_DOUBLE_EQ(at(kLinear, 5), 0.2);
  EXPECT_DOUBLE_EQ(at(kLinear, 10), 0.4);
  EXPECT_DOUBLE_EQ(at(kV, 0), 0.4);
  EXPECT_DOUBLE_EQ(at(kV, 2), 0.2);
  EXPECT_EQ(at(kV, 4), 0);
  EXPECT_DOUBLE_EQ(at(kV, 7), 0.2);
  EXPECT_DOUBLE_EQ(at(kV, 10), 0.4);
}

}  // namespace
}  // namespace headwise::config_test
