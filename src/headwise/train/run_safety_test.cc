// What runs leave, keep, refuse and mend: models of others, two runs in one
// folder, records and caches that were changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "headwise/base/atomic_file.h"
#include "headwise/base/json.h"
#include "headwise/error.h"
#include "headwise/format/safetensors.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model/family.h"
#include "headwise/model/model_hash.h"
#include "headwise/train/material.h"
#include "headwise/train/run.h"
#include "headwise/train/training_run.h"

namespace headwise::run_safety_test {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

std::vector<std::string> NamesIn(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& one : fs::directory_iterator(folder)) {
    names.push_back(one.path().filename());
  }
  return names;
}

TEST_F(TrainingRun, RefusesAModelOfAnotherTypeThanItsParameters) {
  const TrainConfig config = Config("type");
  fs::create_directories(config.out);
  Context context({2, ""});
  const Material material = OpenMaterial(context, DType::kF32, config, {});
  const ModelConfig& model = material.model->config();
  const auto store =
      ParameterStore::Fresh(model, {}, {.compute = DType::kBF16});
  const auto other = BuildModel(model, store, DType::kF32);
  try {
    Trainer(context, config, *other, *store);
    ADD_FAILURE() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("a model of bf16"));
    EXPECT_THAT(error.what(), HasSubstr("found f32"));
  }
}

// A rate that rises without end: the first evaluations are the best.
TEST_F(TrainingRun, KeepsTheBestBesideTheLast) {
  TrainConfig config = Config("best");
  config.steps = 20;
  config.evaluate_every = 4;
  config.save_every = 10;
  config.rate = 20;
  config.warmup = 400;
  config.schedule = RateSchedule::kConstant;
  Context context({2, ""});
  const RunResult result = RunTraining(context, config, {});
  const auto best = result.record.Best();
  ASSERT_TRUE(best);
  ASSERT_LT(best->first, 20);
  EXPECT_EQ(result.last, config.out);
  EXPECT_EQ(result.best, CheckpointFolder(config.out, best->first));
  EXPECT_THAT(
      NamesIn(fs::path(config.out) / "checkpoints"),
      testing::UnorderedElementsAre(result.best.filename(), "step-00000020"));
  for (const auto& [step, loss] : result.record.validation) {
    EXPECT_GE(loss, best->second);
  }
  // The weights are those of that step, and the record names it.
  TrainConfig again = config;
  again.start = result.best;
  const Material material = OpenMaterial(context, DType::kF32, again, {});
  const Trainer trainer(context, again, *material.model, *material.store);
  EXPECT_EQ(trainer.Evaluate(*material.validation, 4), best->second);
  const Json json = ReadJson(fs::path(config.out) / "training.json");
  EXPECT_EQ(json["best"]["step"], best->first);
}

TEST_F(TrainingRun, AStoppedRunTellsItsLastCheckpoint) {
  const TrainConfig config = Config("stopped");
  std::stop_source stop;
  RunOptions options;
  options.stop = stop.get_token();
  options.on_step = [&](const StepView&) { stop.request_stop(); };
  Context context({1, ""});
  const RunResult result = RunTraining(context, config, options);
  EXPECT_FALSE(result.finished);
  EXPECT_EQ(result.last, CheckpointFolder(config.out, 1));
  EXPECT_EQ(result.best, "");
  EXPECT_NO_THROW(OpenModel(result.last));
}

TEST_F(TrainingRun, BeginsOverAModelOnlyWhenAskedTo) {
  const TrainConfig config = Config("kept");
  Train(config);
  const std::string first = ModelHash(config.out);
  fs::remove_all(fs::path(config.out) / "checkpoints");
  RunOptions resume, replace;
  resume.resume = true;
  replace.replace = true;
  EXPECT_THAT(ErrorOf(config), HasSubstr("model.safetensors of a model"));
  EXPECT_THAT(ErrorOf(config, resume), HasSubstr("checkpoints of a run"));
  EXPECT_EQ(ModelHash(config.out), first);
  TrainConfig other = config;
  other.seed = 5;
  other.steps = 3;
  EXPECT_EQ(ErrorOf(other, replace), "");
  EXPECT_NE(ModelHash(config.out), first);
  // Over a longer run, whose checkpoints would be the newest.
  other.steps = 2;
  EXPECT_EQ(ErrorOf(other, replace), "");
  EXPECT_THAT(NamesIn(fs::path(config.out) / "checkpoints"),
              testing::ElementsAre("step-00000002"));
  other.start = CheckpointFolder(config.out, 2);
  EXPECT_THAT(ErrorOf(other, replace), HasSubstr("a start outside"));
}

TEST_F(TrainingRun, TwoInOneFolderAreRefused) {
  TrainConfig config = Config("busy");
  RunOptions options, resume;
  resume.resume = true;
  std::string second;
  options.on_step = [&](const StepView&) {
    if (second.empty()) second = ErrorOf(config, resume);
  };
  EXPECT_EQ(ErrorOf(config, options), "");
  EXPECT_THAT(second, HasSubstr("another one at work in it"));
}

// The record of a run that stopped after three steps, changed.
TEST_F(TrainingRun, RefusesARecordThatContradictsItself) {
  const TrainConfig config = Config("record");
  TrainPiece(config, 3);
  const fs::path file = CheckpointFolder(config.out, 3) / "training.json";
  const Json good = ReadJson(file);
  RunOptions resume;
  resume.resume = true;
  const auto error_with = [&](const char* key, const std::string& value) {
    Json bad = good;
    bad[key] = ParseJson(value, "test");
    WriteFileAtomically(file, bad.dump());
    return ErrorOf(config, resume);
  };
  for (const char* step :
       {"-1", "2", "4611686018427387904", "3.5", "\"3\"", "null", "1e30"}) {
    EXPECT_THAT(error_with("step", step), HasSubstr("training.json: step"))
        << step;
  }
  for (const char* losses : {"[]", "[1, 2]", "[1, 2, null]", "7"}) {
    EXPECT_THAT(error_with("losses", losses), HasSubstr("training.json"))
        << losses;
  }
  for (const char* validation : {"[[1]]", "[[4, 1.0]]", "[[2, 1], [1, 1]]",
                                 "[[-1, 1.0]]", "[[1, \"x\"]]"}) {
    EXPECT_THAT(error_with("validation", validation),
                HasSubstr("training.json: validation"))
        << validation;
  }
  for (const char* tokens : {"9223372036854775807", "-1"}) {
    EXPECT_THAT(error_with("tokens", tokens),
                HasSubstr("training.json: tokens"))
        << tokens;
  }
  for (const char* key : {"config", "data", "machine"}) {
    EXPECT_THAT(error_with(key, "[]"), HasSubstr(key));
  }
  WriteFileAtomically(file, good.dump());
  // A checkpoint under another's name.
  fs::rename(CheckpointFolder(config.out, 3), CheckpointFolder(config.out, 4));
  EXPECT_THAT(ErrorOf(config, resume),
              HasSubstr("expected step 4 of 12; found step 3"));
  fs::rename(CheckpointFolder(config.out, 4), CheckpointFolder(config.out, 3));
  EXPECT_EQ(ErrorOf(config, resume), "");
}

// The tokens of a run are kept beside it: another type, rank or vocabulary is
// not trained on, and the losses are those of the text.
TEST_F(TrainingRun, MakesADamagedCacheOfTokensAnew) {
  const std::vector<double> whole = Train(Config("whole")).losses;
  const Safetensors good =
      Safetensors::Open(folder_ / "whole/tokens.safetensors");
  const ConstTensorView validation = good.At("validation");
  const int64_t count = good.At("train").shape[0];
  const std::vector<uint8_t> bytes(count, 3);
  const std::vector<int32_t> outside(count, 100'000), few(2, 1);
  const std::vector<int32_t> negative(count, -7);
  const ConstTensorView damaged[] = {
      {bytes.data(), DType::kU8, {count}},
      {outside.data(), DType::kI32, {count}},
      {negative.data(), DType::kI32, {count}},
      {few.data(), DType::kI32, {2}},
      {few.data(), DType::kI32, {}},
      {outside.data(), DType::kI32, {1, count}},
  };
  int number = 0;
  for (const ConstTensorView& train : damaged) {
    const TrainConfig config = Config("cache" + std::to_string(number++));
    TrainPiece(config, 3);
    WriteSafetensors(fs::path(config.out) / "tokens.safetensors",
                     {{"train", train}, {"validation", validation}},
                     good.metadata());
    EXPECT_EQ(TrainPiece(config, 100).losses, whole) << ToString(train);
  }
}

TEST_F(TrainingRun, MayDescribeTheModelItStartsFrom) {
  TrainConfig config = Config("dense");
  Train(config);
  config.start = config.out;
  config.out = folder_ / "further";
  config.heads = {{"gates", "hard_concrete"}};
  EXPECT_EQ(ErrorOf(config), "");
  EXPECT_EQ(OpenModel(config.out)->config().gates.kind,
            GateKind::kHardConcrete);
  config.out = folder_ / "other";
  config.model["hidden_size"] = 32;
  EXPECT_THAT(ErrorOf(config), HasSubstr("\"hidden_size\" as"));
  EXPECT_THAT(ErrorOf(config), HasSubstr("has it, 16; found 32"));
  config.model = {{"rope_theta", 7}};
  EXPECT_THAT(ErrorOf(config), HasSubstr("has it, nothing; found 7"));
}

// One id far away would be millions of rows.
TEST_F(TrainingRun, RefusesIdsFarApart) {
  Json tokenizer = ReadJson(folder_ / "tokenizer.json");
  Json added = tokenizer["added_tokens"][0];
  added["id"] = (1 << 24) - 1;
  added["content"] = "<far>";
  tokenizer["added_tokens"].push_back(added);
  WriteFileAtomically(folder_ / "tokenizer.json", tokenizer.dump());
  EXPECT_THAT(ErrorOf(Config("far")), HasSubstr("16777215"));
}

TEST_F(TrainingRun, NamesHeadsThatRotaryPositionsCannotTurn) {
  TrainConfig config = Config("narrow");
  config.model["num_attention_heads"] = 16;
  config.model["num_key_value_heads"] = 16;
  const std::string message = ErrorOf(config);
  EXPECT_THAT(message, HasSubstr("\"num_attention_heads\""));
  EXPECT_THAT(message, HasSubstr("heads of 1: take fewer of them"));
}

}  // namespace
}  // namespace headwise::run_safety_test
