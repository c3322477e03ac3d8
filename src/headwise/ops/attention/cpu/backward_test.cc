// What cpu.f32's backward promises beyond agreement with the reference
// (../agreement_test.cc): its work split, and where numbers that are not finite
// may go.
#include "headwise/ops/attention/cpu/backward.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "headwise/ops/attention/cpu/backward_plan.h"
#include "headwise/ops/attention/testing/call_results.h"
#include "headwise/ops/attention/testing/random_problem.h"
#include "headwise/ops/attention/testing/tolerances.h"

namespace headwise::backward_test {
namespace {

TEST(BackwardPlan, EveryBlockIsAddedToInTurn) {
  constexpr int64_t kBlock = 96;
  AttentionProblem problem;
  problem.query_len = 1000;
  problem.key_len = 1500;
  problem.head_dim = 64;
  for (const AttentionMask& mask :
       {AttentionMask::None(), AttentionMask::Causal(),
        AttentionMask::Causal(-300), AttentionMask::SlidingWindow(40, 0, 500),
        AttentionMask::SlidingWindow(700, 450)}) {
    problem.mask = mask;
    const AttentionArgs args;
    const BackwardPlan plan = MakePlan(problem, args, kBlock);
    const Sequence s = SequenceOf(problem, args, 0);
    ScoreRule rule;
    rule.sequence = s;
    rule.mask = mask;
    for (int64_t first = 0; first < s.queries; first += kBlock) {
      const int64_t count = std::min(kBlock, s.queries - first);
      const ChunkRange chunks = ChunksOf(rule, first, count, plan.chunk_keys);
      int32_t before = 0;
      for (const BackwardTask& task : plan.tasks) {
        const int64_t j = task.chunk * plan.chunk_keys;
        bool seen = false;
        for (int64_t i = first; i < first + count; ++i) {
          for (int64_t key = j;
               key < std::min(s.keys, j + plan.chunk_keys) && !seen; ++key) {
            seen = Sees(mask, i + s.offset, key);
          }
        }
        if (seen) {
          EXPECT_TRUE(chunks.contains(task.chunk));
        }
        if (!chunks.contains(task.chunk)) continue;
        EXPECT_EQ(chunks.Before(task.chunk), before++);
      }
    }
  }
}

TEST(ScoreRule, VisibleKeysAreThoseTheMaskShows) {
  ScoreRule rule;
  rule.sequence.keys = 12;
  for (int64_t offset : {-4, 0, 3, 20}) {
    for (int64_t before : {int64_t{0}, int64_t{3}, kUnlimited}) {
      for (int64_t after : {int64_t{0}, int64_t{2}, kUnlimited}) {
        for (int64_t sinks : {0, 2, 30}) {
          rule.mask = {before, after, offset, sinks};
          rule.sequence.offset = offset;
          for (int64_t i = 0; i < 12; ++i) {
            const KeyRange range = rule.Visible(i);
            for (int64_t j = 0; j < 12; ++j) {
              const bool seen =
                  j < range.sinks || (j >= range.begin && j < range.end);
              ASSERT_EQ(seen, Sees(rule.mask, i + offset, j))
                  << i << " " << j << " offset " << offset;
              ASSERT_EQ(rule.SeesAll(i, i + 1, j, j + 1), seen);
            }
          }
        }
      }
    }
  }
}

// A NaN in a query, key or value reaches the gradients of rows and keys that
// meet it and no others, though they share its tiles.
TEST(Backward, NonFiniteValuesReachOnlyWhatMeetsThem) {
  const std::set<AttentionPass> passes = {AttentionPass::kForward,
                                          AttentionPass::kBackward};
  const int64_t problems = TestProblems(200);
  for (int64_t n = 0; n < problems; ++n) {
    const RandomProblem problem = MakeRandomProblem(
        TestSeed() + n, {.work = 2e5, .max_len = 300, .non_finite = true});
    const CallResults truth(problem, "reference", 1, passes);
    const CallResults found(problem, "cpu.f32", 1, passes);
    for (const CallOutput& output : found.outputs()) {
      if (output.measure != Measure::kGradient) continue;
      const TestTensor& expected = truth.Find(output.name)->tensor;
      const double tolerance = AttentionToleranceOf(DType::kF32).gradient;
      for (int64_t i = 0; i < output.tensor.size(); ++i) {
        const double b = expected.Get(i);
        if (output.tensor.IsPoison(i) || !std::isfinite(b)) continue;
        ASSERT_NEAR(output.tensor.Get(i), b,
                    tolerance * std::max(1.0, std::abs(b)))
            << problem.Text() << " " << output.name
            << output.tensor.IndexText(i);
      }
    }
  }
}

}  // namespace
}  // namespace headwise::backward_test
