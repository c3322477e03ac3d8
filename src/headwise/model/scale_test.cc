#include "headwise/scale.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "headwise/error.h"

namespace headwise::scale_test {
namespace {

std::filesystem::path Large() {
  return std::filesystem::path(HEADWISE_SOURCE) / "examples" / "plan" / "70b";
}

TEST(ScalePlan, CountsParametersAndCopies) {
  const ScalePlan profile = PlanScale(Large(), {.gpus = 64});
  EXPECT_NEAR(profile.parameters, 70.55e9, 0.01e9);
  EXPECT_EQ(profile.copy_gpus, 2);  // 141 GB of 0.9 · 141
  const ScaleJob train = {.work = ScaleTask::kTrain, .gpus = 64};
  // 16 bytes a parameter over 0.9 · 141 GB.
  EXPECT_EQ(PlanScale(Large(), train).copy_gpus, 9);
}

TEST(ScalePlan, AddsUpByHand) {
  const ScaleJob job = {.gpus = 4, .tokens = 1e9};
  ScaleMachine machine;
  machine.memory_gb = 1000;
  const ScalePlan plan = PlanScale(Large(), job, machine);
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
  ScaleJob job = {.gpus = 4096};
  ScaleMachine slow_reader;
  slow_reader.read_tokens = 1e5;
  EXPECT_EQ(PlanScale(Large(), job, slow_reader).limit, "reading");
  job.work = ScaleTask::kTrain;
  ScaleMachine slow_links;
  slow_links.network_gb_s = 0.01;
  const ScalePlan plan = PlanScale(Large(), job, slow_links);
  EXPECT_EQ(plan.limit, "links");
  job.ring = true;
  const ScalePlan ring = PlanScale(Large(), job, slow_links);
  EXPECT_LT(ring.rows.back().links, plan.rows.back().links);
  EXPECT_GE(ring.useful_gpus, plan.useful_gpus);
}

TEST(ScalePlan, RefusesRatesThatAreNone) {
  ScaleMachine machine;
  machine.node_gb_s = 0;
  EXPECT_THROW(PlanScale(Large(), {}, machine), Error);
  EXPECT_THROW(PlanScale(Large(), {.tokens = -1}), Error);
}

}  // namespace
}  // namespace headwise::scale_test
