// Taking heads out through the public door.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "headwise/api/test_model.h"
#include "headwise/base/scratch_folder.h"
#include "headwise/error.h"
#include "headwise/train.h"

namespace headwise {
namespace {

using HeadPrunerTest = ScratchFolderTest;

TextInput Windows() {
  TextInput text = ShortText(256);
  text.context = 32;
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
  job.by = "activation";
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
  job.by = "activation";
  const PruningCurve curve = HeadPruner(model, Windows(), job).Curve(2);
  ASSERT_EQ(curve.orders.size(), 4);
  EXPECT_EQ(curve.heads, std::ssize(HeadsOf(model)));
  EXPECT_TRUE(curve.speeds.empty());
  EXPECT_LT(curve.orders[0].area, curve.orders[1].area);
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
  repair.repair = "finetune,fold";
  refused(repair);
  PruneJob absent;
  absent.drop = {{.layer = 99}};
  refused(absent);
}

}  // namespace
}  // namespace headwise
