// The same answers on a GPU as on the host, in f32. Skipped where there is
// none.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "headwise/error.h"
#include "headwise/heads/importance/patching.h"
#include "headwise/heads/importance/ranking.h"
#include "headwise/heads/importance/test_models.h"
#include "headwise/heads/importance/variants.h"

namespace headwise::importance_device_test {
namespace {

// A context on the first GPU, or null where there is none.
std::unique_ptr<Context> OnDevice() {
  try {
    return std::make_unique<Context>(ContextOptions{
        .threads = 2, .implementations = "", .device = Device::Cuda()});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    return nullptr;
  }
}

void ExpectNear(const Interval& found, const Interval& wanted) {
  for (const auto& [a, b] :
       {std::pair{found.value, wanted.value}, std::pair{found.low, wanted.low},
        std::pair{found.high, wanted.high}}) {
    EXPECT_NEAR(a, b, 1e-4 * std::max(1.0, std::abs(b)));
  }
}

class HeadsOnDevice : public testing::TestWithParam<const char*> {};

TEST_P(HeadsOnDevice, RankAsOnTheHost) {
  const auto there = OnDevice();
  if (there == nullptr) GTEST_SKIP() << "no GPU";
  Context here({.threads = 2});
  RankOptions options;
  options.job.by = {Criterion::kAblationMean,     Criterion::kAblationZero,
                    Criterion::kAblationResample, Criterion::kActivation,
                    Criterion::kWeightsOv,        Criterion::kWeightsQk,
                    Criterion::kGradient,         Criterion::kGradientToken};
  options.objective.mask_token = 3;
  options.job.pairs = options.job.self_repair = true;
  options.replicates = 200;
  options.batch_tokens = 64;  // several batches, of which a device joins some
  const auto examples = RandomExamples(12, 17, 64, 5);
  // What weights become is of one device: each has its own model.
  const Ranking wanted =
      RankHeads(here, *GoldenModel(GetParam()), examples, options);
  const Ranking found =
      RankHeads(*there, *GoldenModel(GetParam()), examples, options);
  EXPECT_NEAR(found.loss, wanted.loss, 1e-4);
  ASSERT_EQ(found.criteria.size(), wanted.criteria.size());
  for (size_t c = 0; c < wanted.criteria.size(); ++c) {
    SCOPED_TRACE(Name(wanted.criteria[c].criterion));
    for (size_t h = 0; h < wanted.heads.size(); ++h) {
      ExpectNear(found.criteria[c].heads[h], wanted.criteria[c].heads[h]);
    }
  }
  for (size_t p = 0; p < wanted.pairs.size(); ++p) {
    ExpectNear(found.pairs[p].interaction, wanted.pairs[p].interaction);
  }
  ASSERT_EQ(found.self_repair.size(), wanted.self_repair.size());
  for (size_t h = 0; h < wanted.self_repair.size(); ++h) {
    ASSERT_EQ(found.self_repair[h].has_value(),
              wanted.self_repair[h].has_value());
    if (!wanted.self_repair[h]) continue;
    EXPECT_NEAR(found.self_repair[h]->value, wanted.self_repair[h]->value,
                1e-2 * std::max(1.0, std::abs(wanted.self_repair[h]->value)));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, HeadsOnDevice,
                         testing::Values("gpt2", "gpt_neox", "llama", "bert",
                                         "marian", "bert-headless"));

TEST(HeadsOnDeviceOfPrompts, ArePatchedAsOnTheHost) {
  const auto there = OnDevice();
  if (there == nullptr) GTEST_SKIP() << "no GPU";
  Context here({.threads = 2});
  const std::vector<PatchCase> cases = {
      {{5, 9, 12, 7}, {5, 8, 12, 7}, 3, 4},
      {{21, 9, 2, 7, 30}, {21, 9, 3, 7, 30}, 11, 40}};
  const PatchResult wanted = Patch(here, *GoldenModel("gpt2"), cases);
  const PatchResult found = Patch(*there, *GoldenModel("gpt2"), cases);
  ExpectNear(found.difference, wanted.difference);
  for (size_t h = 0; h < wanted.heads.size(); ++h) {
    EXPECT_NEAR(found.direct.heads[h], wanted.direct.heads[h], 1e-4);
    ExpectNear(found.patched[h], wanted.patched[h]);
  }
}

// What a device is given at a time: batches joined, sequences in order.
TEST(JoinedBatches, HaveTheLossesOfEach) {
  Context context({.threads = 2});
  const auto model = GoldenModel("marian");
  const Objective objective(*model);
  const auto examples = RandomExamples(5, 11, 64, 8);
  const ExampleBatch first = objective.Prepare(std::span(examples).first(2), 0);
  const ExampleBatch second =
      objective.Prepare(std::span(examples).subspan(2), 2);
  const ExampleBatch* both[] = {&first, &second};
  const ExampleBatch all = Joined(both);
  ASSERT_EQ(all.size(), 5);
  std::vector<double> wanted;
  for (const ExampleBatch* one : both) {
    const CleanRun run = RunClean(context, *model, *one);
    for (const double loss :
         objective.Losses(context, *one, run.final.view(), 1)) {
      wanted.push_back(loss);
    }
  }
  const CleanRun run = RunClean(context, *model, all);
  const std::vector<double> found =
      objective.Losses(context, all, run.final.view(), 1);
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], wanted[i], 1e-4);
  }
  EXPECT_EQ(all.weights.size(), 5u);
  EXPECT_EQ(all.targets.size(), first.targets.size() + second.targets.size());
}

}  // namespace
}  // namespace headwise::importance_device_test
