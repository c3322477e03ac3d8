// The frame of trained studies: models learn, the same on any number of
// threads, and stop when told to.
#include "headwise/study/support/trained.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "headwise/error.h"
#include "headwise/study/k_lookup.h"
#include "headwise/study/support/tiny_model.h"
#include "headwise/study/support/toy.h"

namespace headwise::trained_test {
namespace {

// Counts on: token i + 1 follows token i, modulo 8.
MadeSequence CountOn(Rng& rng) {
  std::vector<int32_t> tokens = {static_cast<int32_t>(rng.Below(8))};
  while (tokens.size() < 12) tokens.push_back((tokens.back() + 1) % 8);
  return NextToken(tokens);
}

std::vector<double> CountingLosses(int threads) {
  Context context({.threads = threads, .implementations = ""});
  TrainConfig how;
  how.steps = 80;
  how.rate = 1e-2;
  how.warmup = 5;
  const StudyRequest request;
  StudyClock clock(request, "test", how.steps);
  TinyModel tiny(context,
                 TinyLlama({.layers = 1,
                            .heads = 2,
                            .width = 16,
                            .hidden = 16,
                            .vocabulary = 8}),
                 how);
  const MadeBatches data(1, CountOn), held_out(2, CountOn);
  std::vector<double> losses;
  tiny.Train(data, clock,
             [&](const StepReport& step) { losses.push_back(step.loss); });
  for (const double loss : tiny.SequenceLosses(held_out, 3)) {
    losses.push_back(loss);
  }
  return losses;
}

TEST(TinyModelTest, LearnsTheSameOnAnyNumberOfThreads) {
  const std::vector<double> one = CountingLosses(1);
  EXPECT_NEAR(one.front(), std::log(8), 0.1);
  EXPECT_LT(one.back(), 0.5);
  EXPECT_EQ(one, CountingLosses(2));
}

// Attend to the only key whose first feature is set; copy its second.
ToyBatch FindMarked(Rng& rng) {
  constexpr int64_t kBatch = 16, kKeys = 4;
  ToyBatch batch{Tensor(DType::kF32, {kBatch, 1, 4}),
                 Tensor(DType::kF32, {kBatch, kKeys, 4}),
                 Tensor(DType::kF32, {kBatch, 1, 1})};
  for (int64_t b = 0; b < kBatch; ++b) {
    batch.x.As<float>()[b * 4] = 1;
    const int64_t marked = rng.Between(0, kKeys - 1);
    for (int64_t j = 0; j < kKeys; ++j) {
      float* key = batch.source.As<float>() + (b * kKeys + j) * 4;
      key[0] = j == marked ? 2.0f : 0.0f;
      key[1] = static_cast<float>(rng.Normal());
      if (j == marked) batch.target.As<float>()[b] = key[1];
    }
  }
  return batch;
}

TEST(ToyTest, LearnsToLookUpAndLeavesFrozenWeights) {
  Context context({.threads = 1, .implementations = ""});
  const StudyRequest request;
  StudyClock clock(request, "test", 400);
  MultiHeadAttention module({.d_model = 4, .heads = 1}, 1);
  const float frozen = module.parameters().w_k.As<float>()[0];
  ToyTraining how;
  how.steps = 400;
  how.rate = 0.05;
  how.freeze = [](MultiHeadAttentionParameters& gradients) {
    gradients.w_k.As<float>()[0] = 0;
  };
  const double error = TrainToy(context, module, FindMarked, how, clock);
  EXPECT_LT(error, 0.05);
  EXPECT_EQ(module.parameters().w_k.As<float>()[0], frozen);
  Rng rng(7);
  const ToyBatch fresh = FindMarked(rng);
  EXPECT_GT(ExplainedShares(context, module, fresh).at(0), 0.9);
  EXPECT_LT(ToyError(context, module, fresh), 0.1);
}

TEST(StudyClockTest, TellsHowFarAndStops) {
  std::stop_source source;
  StudyRequest request;
  double done = 0;
  request.progress = [&](const Progress& p) { done = p.done / p.total; };
  request.stop = source.get_token();
  StudyClock clock(request, "test", 4);
  clock.Tick();
  EXPECT_EQ(done, 0.25);
  source.request_stop();
  EXPECT_THROW(clock.Tick(), Error);
}

TEST(OverSeedsTest, GivesStudentsInterval) {
  const SeedMean mean = OverSeeds(std::vector<double>{1, 2, 3});
  EXPECT_DOUBLE_EQ(mean.value, 2);
  EXPECT_NEAR(mean.high - 2, 4.303 / std::sqrt(3), 1e-3);
  EXPECT_EQ(mean.values, (std::vector<double>{1, 2, 3}));
  // Five seeds: 2.776, not 2.729.
  const SeedMean five = OverSeeds(std::vector<double>{1, 2, 3, 4, 5});
  EXPECT_NEAR(five.high - 3, 2.77645 * std::sqrt(2.5 / 5), 1e-5);
  const Interval one = OverSeeds(std::vector<double>{1});
  EXPECT_TRUE(std::isinf(one.low) && std::isinf(one.high));
  const Interval paired =
      PairedDifference(std::vector<double>{3, 4, 5, 6, 7, 8},
                       std::vector<double>{1, 2, 3, 4, 5, 6.5});
  EXPECT_NEAR(paired.value, 11.5 / 6, 1e-12);
  EXPECT_GT(paired.low, 1.5);
}

TEST(OverSeedsTest, KeepsSharesInRange) {
  const SeedMean share =
      OverSeeds(std::vector<double>{.97, 1, 1, .99, 1}, kShare);
  EXPECT_LT(share.high, 1);
  EXPECT_GT(share.low, .9);
  const SeedMean all = OverSeeds(std::vector<double>(5, 1.0), kShare);
  EXPECT_NEAR(all.low, .478, 1e-3) << "five of five";
  EXPECT_EQ(all.high, 1);
}

TEST(StudyRequestTest, FullStudiesTakeMoreSeedsAndEffortScalesSteps) {
  StudyRequest request;
  EXPECT_EQ(StudySeeds(request).size(), 1u);
  EXPECT_EQ(StudySteps(request, 100, 300), 100);
  request.full = true;
  request.effort = 0.1;
  EXPECT_EQ(StudySeeds(request).size(), 5u);
  request.seeds = {7};
  EXPECT_EQ(StudySeeds(request), std::vector<uint64_t>{7});
  request.notes = std::make_shared<StudyNotes>();
  EXPECT_EQ(StudySteps(request, 100, 300), 30);
  EXPECT_EQ(request.notes->steps(),
            std::vector<std::string>{"100 or 300 steps"});
}

// A few steps of a study prove nothing, but must run and not depend on threads.
class TrainedStudyTest : public testing::TestWithParam<const char*> {};

TEST_P(TrainedStudyTest, RunsTheSameOnAnyNumberOfThreads) {
  const Study& study = FindStudy(GetParam());
  EXPECT_TRUE(study.trained);
  StudyRequest request;
  request.effort = 0.005;
  Context one({.threads = 1, .implementations = ""});
  Context two({.threads = 2, .implementations = ""});
  const StudyResult result = RunStudy(study, one, request);
  const StudyResult again = RunStudy(study, two, request);
  EXPECT_FALSE(result.pictures.empty());
  EXPECT_FALSE(result.tables.empty());
  ASSERT_FALSE(result.figures.empty());
  ASSERT_EQ(result.figures.size(), again.figures.size());
  for (size_t i = 0; i < result.figures.size(); ++i) {
    EXPECT_TRUE(std::isfinite(result.figures[i].value))
        << result.figures[i].name;
    EXPECT_EQ(result.figures[i].value, again.figures[i].value)
        << result.figures[i].name;
    // Else nobody could take the interval again from the record.
    if (result.figures[i].over_seeds) {
      EXPECT_EQ(result.figures[i].values.size(), result.seeds.size())
          << result.figures[i].name;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Synthetic, TrainedStudyTest,
                         testing::Values("k-lookup", "kv-cache",
                                         "teacher-student", "limits", "rank",
                                         "subspaces", "tasty", "emergence",
                                         "symmetry", "redundancy", "rasp",
                                         "positions", "supervision", "freezing",
                                         "assigned"),
                         [](const auto& study) {
                           std::string name = study.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// The law at a reduced size: one head too few, enough heads, one to spare.
TEST(KLookupTest, HeadsReturnAsManyValuesAsThereAreHeads) {
  Context context({.threads = 1, .implementations = ""});
  const StudyRequest request;
  StudyClock clock(request, "test", 1);
  auto learn = [&](int64_t heads, int64_t values) {
    return LearnLookup(context,
                       {.heads = heads, .values = values, .steps = 300}, clock);
  };
  EXPECT_NEAR(learn(1, 2), 0.5, 0.03);
  EXPECT_NEAR(learn(2, 2), 1, 0.03);
  EXPECT_NEAR(learn(2, 4), 0.5, 0.03);
  EXPECT_NEAR(learn(2, 1), 1, 0.03);
}

}  // namespace
}  // namespace headwise::trained_test
