#include "headwise/model/scale_plan.h"

#include <gtest/gtest.h>

#include "headwise/error.h"
#include "headwise/model/checkpoint.h"

namespace headwise::scale_plan_test {
namespace {

ModelConfig Large() {
  return OpenConfig(std::filesystem::path(HEADWISE_SOURCE) / "examples" /
                    "plan" / "70b");
}

TEST(ScalePlan, CountsParametersAndCopies) {
  const ScalePlan profile = PlanScale(Large(), {}, {}, 64);
  EXPECT_NEAR(profile.parameters, 70.55e9, 0.01e9);
  EXPECT_EQ(profile.copy_gpus, 2);  // 141 GB of 0.9 · 141
  ScaleWork train;
  train.task = ScaleTask::kTrain;
  // 16 bytes a parameter over 0.9 · 141 GB.
  EXPECT_EQ(PlanScale(Large(), train, {}, 64).copy_gpus, 9);
}

TEST(ScalePlan, AddsUpByHand) {
  ScaleWork work;
  work.tokens = 1e9;
  ScaleMachine machine;
  machine.memory_gb = 1000;
  const ScalePlan plan = PlanScale(Large(), work, machine, 4);
  ASSERT_EQ(plan.rows.size(), 3u);
  // 2 operations a weight that a token passes, all but the vocabulary's.
  const double products = 2 * (plan.parameters - 2 * 128256.0 * 8192);
  const double attention = 80 * 64 * 4 * 128 * (1025 / 2.0);
  EXPECT_NEAR(plan.flops_a_token / (products + attention), 1, 1e-9);
  const double seconds = 1e9 * (products + attention) / 400e12;
  EXPECT_NEAR(plan.rows[0].compute / seconds, 1, 1e-9);
  EXPECT_NEAR(plan.rows[2].compute / (seconds / 4), 1, 1e-9);
  EXPECT_EQ(plan.rows[0].links, 0);
  EXPECT_DOUBLE_EQ(plan.rows[2].reading, 1e9 / 1e6);
}

TEST(ScalePlan, StopsWhereItsSlowestPartDoes) {
  ScaleWork work;
  ScaleMachine slow_reader;
  slow_reader.read_tokens = 1e5;
  EXPECT_EQ(PlanScale(Large(), work, slow_reader, 4096).limit, "reading");
  work.task = ScaleTask::kTrain;
  ScaleMachine slow_links;
  slow_links.network_gb_s = 0.01;
  const ScalePlan plan = PlanScale(Large(), work, slow_links, 4096);
  EXPECT_EQ(plan.limit, "links");
  work.ring = true;
  const ScalePlan ring = PlanScale(Large(), work, slow_links, 4096);
  EXPECT_LT(ring.rows.back().links, plan.rows.back().links);
  EXPECT_GE(ring.useful_gpus, plan.useful_gpus);
}

TEST(ScalePlan, RefusesRatesThatAreNone) {
  ScaleMachine machine;
  machine.node_gb_s = 0;
  EXPECT_THROW(PlanScale(Large(), {}, machine, 8), Error);
  ScaleWork work;
  work.tokens = -1;
  EXPECT_THROW(PlanScale(Large(), work, {}, 8), Error);
}

}  // namespace
}  // namespace headwise::scale_plan_test
