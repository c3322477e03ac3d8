// What the random problems of agreement_test.cc are too small for: how the
// forward's work is cut, what memory it takes, and digits at great distances.
#include "headwise/ops/attention/cpu/forward.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

#include "headwise/ops/attention/cpu/forward_plan.h"

namespace headwise::forward_test {
namespace {

constexpr int64_t kLong = 131072;
// Packed keys and values of a tile: 64 columns each, and 16 features.
constexpr int64_t kTileBytes = kTileKeys * (64 + 64 + 16) * 4;

AttentionProblem LongProblem() {
  AttentionProblem problem;
  problem.heads = problem.kv_heads = 12;
  problem.query_len = problem.key_len = kLong;
  problem.head_dim = 64;
  problem.mask = AttentionMask::Causal();
  return problem;
}

TEST(ForwardPlan, GroupsBoundTheMemoryForPackedHeads) {
  const AttentionProblem problem = LongProblem();
  const auto groups = PlanForward(ForwardCall(problem, {}), kTileBytes);
  EXPECT_EQ(groups.size(), 12u);  // one head is 72 MiB
  for (const ForwardGroup& group : groups) {
    EXPECT_LT(group.tiles * kTileBytes, 80 << 20);
  }
  AttentionProblem small = problem;
  small.query_len = small.key_len = 2048;
  EXPECT_EQ(PlanForward(ForwardCall(small, {}), kTileBytes).size(), 1u);
}

TEST(ForwardPlan, CoversEveryQueryOfEveryActiveHeadOnceLongestFirst) {
  AttentionProblem problem = LongProblem();
  problem.batch = 2;
  problem.kv_heads = 4;
  problem.query_len = problem.key_len = 1100;
  const std::vector<int32_t> active = {0, 2, 7};
  AttentionArgs args;
  args.active_heads = active;
  std::map<std::pair<int64_t, int64_t>, int64_t> queries;
  for (const auto& group : PlanForward(ForwardCall(problem, args), 1)) {
    double last = INFINITY;
    EXPECT_EQ(group.heads.size(), 4u);  // of two sequences: kv heads 0 and 2
    for (const BlockTask& task : group.tasks) {
      EXPECT_LE(task.work, last);
      last = task.work;
      const PackedHead& head = group.heads[task.packed];
      EXPECT_EQ(head.kv_head, task.head / 3);
      queries[{head.sequence, task.head}] += task.count;
    }
  }
  EXPECT_EQ(queries.size(), 6u);
  for (const auto& [key, count] : queries) EXPECT_EQ(count, 1100);
}

// Every key equally probable: each statistic is known exactly.
TEST(Forward, LongRowsKeepTheirDigits) {
  AttentionProblem problem;
  problem.query_len = 3;
  problem.key_len = kLong;
  problem.head_dim = 4;
  problem.mask = AttentionMask::Causal(kLong - 3);
  Tensor q(DType::kF32, {1, 3, 1, 4});
  Tensor k(DType::kF32, {1, kLong, 1, 4});
  Tensor v(DType::kF32, {1, kLong, 1, 4});
  for (int64_t i = 0; i < k.size(); ++i) k.As<float>()[i] = 0.1f * (i % 17);
  for (int64_t i = 0; i < v.size(); ++i) v.As<float>()[i] = i % 4;
  Tensor out(DType::kF32, {1, 3, 1, 4});
  Tensor row(DType::kF32, {4, 1, 1, 3});
  Tensor histogram(DType::kF32, {1, 1, 3, kHistogramBuckets});
  AttentionArgs args;
  args.q = q.view();
  args.k = k.view();
  args.v = v.view();
  args.out = out.view();
  Observation observation;
  observation.statistics = Statistics::kFull;
  float* results = row.As<float>();
  observation.rows.entropy = View(results, {1, 1, 3});
  observation.rows.distance = View(results + 3, {1, 1, 3});
  observation.rows.varentropy = View(results + 6, {1, 1, 3});
  observation.rows.sum_squares = View(results + 9, {1, 1, 3});
  observation.rows.histogram = histogram.view();
  args.observation = &observation;
  Context context({2, ""});
  ForwardF32(context, problem, args);

  const double n = kLong;  // keys that the last query sees
  EXPECT_NEAR(results[2], std::log(n), 2e-5 * std::log(n));
  EXPECT_NEAR(results[5], (n - 1) / 2, 2e-5 * n / 2);
  EXPECT_NEAR(results[8], 0, 2e-5);
  EXPECT_NEAR(results[11], 1 / n, 2e-5 / n);
  const float* buckets = histogram.As<float>() + 2 * kHistogramBuckets;
  for (int b = 0; b <= kHistogramCenter; ++b) {
    const double keys = b == 0 ? 1 : b <= 17 ? std::exp2(b - 1) : 0;
    EXPECT_NEAR(buckets[kHistogramCenter + b], keys / n, 1e-6) << b;
    if (b > 0) {
      EXPECT_EQ(buckets[kHistogramCenter - b], 0);
    }
  }
  for (int e = 0; e < 4; ++e) EXPECT_NEAR(out.As<float>()[8 + e], e, 2e-5 * 3);
  // Keys and values once more, and what does not grow with them.
  EXPECT_LT(context.PeakScratchBytes(), kLong * 16 * 4 + (4 << 20));
}

}  // namespace
}  // namespace headwise::forward_test
