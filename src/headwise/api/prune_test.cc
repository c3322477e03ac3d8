// Taking heads out through the public door.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "headwise/api/test_model.h"
#include "headwise/base/mapped_file.h"
#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"
#include "headwise/evaluate.h"
#include "headwise/head_ref.h"
#include "headwise/model.h"
#include "headwise/prune.h"
#include "headwise/text_input.h"

namespace headwise::prune_test {
namespace {

using HeadPrunerTest = ScratchFolderTest;

TextInput Windows() {
  TextInput text = ShortText(128);
  text.context = 16;
  return text;
}

PruneJob Dropping() {
  PruneJob job;
  job.drop = {{.layer = 3, .head = 1}, {.layer = 1, .head = 2}};
  return job;
}

TEST_F(HeadPrunerTest, WritesAModelWithoutTheHeads) {
  Transformer model = Novels();
  PruneJob job = Dropping();
  int timed = 0;
  job.time = [&](const auto&, const auto&, double) {
    ++timed;
    return std::pair(2.0, 1.0);
  };
  HeadPruner pruner(model, Windows(), job);
  const PruningPlan plan = pruner.Plan();
  EXPECT_EQ(plan.criterion, "given");
  ASSERT_EQ(plan.removed.size(), 2);
  EXPECT_EQ(plan.removed[0].layer, 1);  // in order
  const std::filesystem::path out = folder_ / "smaller";
  const PruneOutcome outcome = pruner.Write(plan, out);
  EXPECT_GT(timed, 0);
  EXPECT_EQ(std::ssize(outcome.timings), timed);
  EXPECT_LT(outcome.weight_bytes[1], outcome.weight_bytes[0]);
  Transformer smaller(out);
  EXPECT_EQ(HeadsOf(smaller).size() + 2, HeadsOf(model).size());
  EXPECT_EQ(smaller.info().layers[3].heads + 1, model.info().layers[3].heads);
  // What leaves gives what a closed head gives: nothing.
  const double alone = smaller.Loss(Windows()).loss.value;
  EXPECT_NEAR(alone,
              EvaluateHeads(model, Windows(), {.closed = plan.removed})
                  .loss.other.value,
              1e-5);
  EXPECT_NE(outcome.loss.other.value, outcome.loss.whole.value);
  EXPECT_THROW(pruner.Write(plan, out), Error);  // it is there
  EXPECT_NO_THROW(pruner.Write(plan, out, true));
}

TEST_F(HeadPrunerTest, PlansAreReadAgain) {
  Transformer model = Novels();
  PruneJob job;
  job.keep = 0.9;
  job.by = Criterion::kActivation;
  const PruningPlan plan = HeadPruner(model, Windows(), job).Plan();
  EXPECT_EQ(plan.scores.size(), HeadsOf(model).size());
  const std::filesystem::path file = folder_ / "plan.json";
  std::ofstream(file) << JsonText(plan, model);
  EXPECT_EQ(ReadPlan(file, model), plan.removed);
  PruneJob again;
  again.plan = file.string();
  EXPECT_EQ(HeadPruner(model, Windows(), again).Plan().removed, plan.removed);
}

TEST(HeadPruner, CurvesAreOfEveryOrder) {
  Transformer model = Novels();
  PruneJob job;
  job.by = Criterion::kActivation;
  const PruningCurve curve = HeadPruner(model, Windows(), job).Curve(2);
  ASSERT_EQ(curve.orders.size(), 4);
  EXPECT_EQ(curve.heads, std::ssize(HeadsOf(model)));
  EXPECT_TRUE(curve.speeds.empty());
  EXPECT_LT(curve.orders[0].area, curve.orders[1].area);
}

std::string Bytes(const std::filesystem::path& path) {
  return std::string(MappedFile(path).text());
}

PruneJob Tuning() {
  PruneJob job;
  job.keep = 0.8;
  job.by = Criterion::kGates;
  job.tune = true;
  job.tune_steps = 2;
  job.seed = 5;
  return job;
}

// The heads leave weights that learned: what is written is the tuned model with
// those heads masked, and again the same where its plan is replayed.
TEST_F(HeadPrunerTest, TunedGatesLeaveTheTunedWeights) {
  Transformer model = Novels();
  HeadPruner pruner(model, Windows(), Tuning());
  const PruningPlan plan = pruner.Plan();
  EXPECT_EQ(plan.criterion, "gates, tuned");
  ASSERT_TRUE(plan.gates);
  EXPECT_EQ(plan.gates->steps, 2);
  EXPECT_EQ(plan.gates->seed, 5);
  EXPECT_EQ(plan.gates->rate, PruneJob().finetune_rate);
  ASSERT_FALSE(plan.removed.empty());
  const PruneOutcome outcome = pruner.Write(plan, folder_ / "smaller");
  PruningPlan all = plan;
  all.removed.clear();
  pruner.Write(all, folder_ / "tuned");
  Transformer tuned(folder_ / "tuned"), smaller(folder_ / "smaller");
  EXPECT_NE(tuned.hash(), model.hash());
  EXPECT_NEAR(smaller.Loss(Windows()).loss.value,
              EvaluateHeads(tuned, Windows(), {.closed = plan.removed})
                  .loss.other.value,
              1e-4);
  EXPECT_NE(outcome.loss.other.value, outcome.loss.whole.value);

  const std::filesystem::path file = folder_ / "plan.json";
  std::ofstream(file) << JsonText(plan, model);
  PruneJob again;
  again.plan = file.string();
  HeadPruner second(model, Windows(), again);
  second.Write(second.Plan(), folder_ / "again");
  EXPECT_EQ(Bytes(folder_ / "again/model.safetensors"),
            Bytes(folder_ / "smaller/model.safetensors"));
  // A plan without tuning is of the model's own weights, whatever came before.
  PruningPlan plain = plan;
  plain.gates.reset();
  second.Write(plain, folder_ / "plain");
  EXPECT_NE(Bytes(folder_ / "plain/model.safetensors"),
            Bytes(folder_ / "smaller/model.safetensors"));
}

TEST(HeadPruner, RefusesToTuneWhatGatesDoNotChoose) {
  Transformer model = Novels();
  const auto refused = [&](PruneJob job) {
    EXPECT_THROW(HeadPruner(model, Windows(), job), Error);
  };
  PruneJob job = Tuning();
  job.by = Criterion::kActivation;
  refused(job);
  job = Tuning();
  job.finetune_rate = 0;
  refused(job);
  job = Tuning();
  job.iterative = 2;
  refused(job);
  job = Dropping();
  job.by = Criterion::kGates;
  job.tune = true;
  refused(job);
  EXPECT_THROW(HeadPruner(model, Windows(), Tuning()).Curve(), Error);
}

TEST(HeadPruner, RefusesWhatMakesNoSense) {
  Transformer model = Novels();
  const auto refused = [&](const PruneJob& job) {
    EXPECT_THROW(HeadPruner(model, Windows(), job), Error);
  };
  PruneJob two = Dropping();
  two.keep = 0.5;
  refused(two);
  PruneJob untimed;
  untimed.target_speedup = 2;
  refused(untimed);
  PruneJob limit;
  limit.max_loss = "much";
  refused(limit);
  PruneJob repair = Dropping();
  repair.repair = {Repair::kFinetune, Repair::kFold};
  refused(repair);
  PruneJob absent;
  absent.drop = {{.layer = 99}};
  refused(absent);
}

}  // namespace
}  // namespace headwise::prune_test
