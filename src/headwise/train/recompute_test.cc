// Layers that are run again in the backward give the same numbers.
#include <gtest/gtest.h>

#include <string>

#include "headwise/model/model_hash.h"
#include "headwise/train/training_run.h"

namespace headwise::recompute_test {
namespace {

TEST_F(TrainingRun, IsTheSameBitForBitWhereLayersAreRunAgain) {
  const char* const kinds[] = {
      R"({})", R"({"gates": "hard_concrete"})",
      R"({"gates": "mixture", "shared_heads": 1, "active_heads": 2})",
      R"({"span_ramp": 4})"};
  int number = 0;
  for (const char* kind : kinds) {
    auto config = [&](const std::string& out) {
      TrainConfig own = Config(out + std::to_string(number));
      own.model["num_attention_heads"] = 4;
      own.model["num_key_value_heads"] = 2;
      own.heads = Json::parse(kind);
      own.head_dropout = 0.3;
      own.gate_penalty = own.balance = own.span_penalty = 0.1;
      return own;
    };
    const TrainConfig kept = config("kept");
    TrainConfig again = config("again");
    again.recompute = true;
    EXPECT_EQ(Train(kept).losses, Train(again).losses) << kind;
    EXPECT_EQ(ModelHash(kept.out), ModelHash(again.out)) << kind;
    ++number;
  }
}

}  // namespace
}  // namespace headwise::recompute_test
