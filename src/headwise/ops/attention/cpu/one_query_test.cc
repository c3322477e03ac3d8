// One query a head against the reference, and that it takes what it should.
#include "headwise/ops/attention/cpu/one_query.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "headwise/base/rng.h"

namespace headwise::one_query_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Two sequences with keys in a cache that has room for more: NaN.
struct Step {
  AttentionProblem problem;
  Tensor q, k, v, out;
  std::vector<int32_t> key_lengths, offsets;
  AttentionArgs args;

  Step(int64_t heads, int64_t kv_heads, int64_t dim, int32_t keys) {
    problem.batch = 2;
    problem.heads = heads;
    problem.kv_heads = kv_heads;
    problem.head_dim = dim;
    problem.query_len = 1;
    problem.key_len = keys + 5;
    problem.mask = AttentionMask::Causal();
    q = Tensor(DType::kF32, {2, 1, heads, dim});
    k = Tensor(DType::kF32, {2, keys + 5, kv_heads, dim});
    v = Tensor(DType::kF32, {2, keys + 5, kv_heads, dim});
    out = Tensor(DType::kF32, {2, 1, heads, dim});
    key_lengths = {keys, keys / 2 + 1};
    offsets = {keys - 1, keys / 2};
    Rng rng(7);
    for (int64_t i = 0; i < q.size(); ++i) q.As<float>()[i] = Draw(rng);
    const int64_t row = kv_heads * dim;
    for (Tensor* tensor : {&k, &v}) {
      for (int64_t i = 0; i < tensor->size(); ++i) {
        const int64_t b = i / (row * (keys + 5)), j = i / row % (keys + 5);
        tensor->As<float>()[i] = j < key_lengths[b] ? Draw(rng) : kNan;
      }
    }
    args.q = q.view();
    args.k = k.view();
    args.v = v.view();
    args.out = out.view();
    args.key_lengths = {key_lengths.data(), DType::kI32, {2}};
    args.query_offsets = {offsets.data(), DType::kI32, {2}};
  }

  static float Draw(Rng& rng) {
    return 2 * static_cast<float>(rng.Uniform()) - 1;
  }

  void ExpectLikeReference() {
    for (const int threads : {1, 3}) {
      Context context({.threads = threads, .implementations = ""});
      Context plain({.threads = 1, .implementations = "attention:reference"});
      std::fill_n(out.As<float>(), out.size(), kNan);
      ASSERT_TRUE(OneQueryF32(context, problem, args));
      Tensor expected(DType::kF32, {2, 1, problem.heads, problem.head_dim});
      AttentionArgs reference = args;
      reference.out = expected.view();
      AttentionForward(plain, problem, reference);
      for (int64_t i = 0; i < out.size(); ++i) {
        ASSERT_NEAR(out.As<float>()[i], expected.As<float>()[i], 2e-6) << i;
      }
    }
  }
};

TEST(OneQuery, EqualsTheReference) {
  for (const int32_t keys : {1, 3, 4, 50, 512}) {
    Step(8, 2, 64, keys).ExpectLikeReference();
    Step(3, 3, 64, keys).ExpectLikeReference();
    Step(6, 1, 128, keys).ExpectLikeReference();
  }
}

TEST(OneQuery, LooksThroughAWindow) {
  Step step(4, 1, 64, 100);
  step.problem.mask = AttentionMask::SlidingWindow(9);
  step.ExpectLikeReference();
}

TEST(OneQuery, SeesNothingAndIsZero) {
  Step step(4, 1, 64, 10);
  step.key_lengths = {0, 0};
  step.ExpectLikeReference();
  Step infinite(4, 1, 64, 10);  // scores of −∞ only
  std::fill_n(infinite.q.As<float>(), infinite.q.size(), 1.0f);
  std::fill_n(infinite.k.As<float>(), infinite.k.size(), -INFINITY);
  infinite.ExpectLikeReference();
}

TEST(OneQuery, ShowsNanToThoseWhoSeeIt) {
  Context context({.threads = 1, .implementations = ""});
  for (const int32_t keys : {1, 9}) {
    Step step(4, 1, 64, keys);
    step.k.As<float>()[3] = kNan;  // sequence 0, key 0
    ASSERT_TRUE(OneQueryF32(context, step.problem, step.args));
    EXPECT_TRUE(std::isnan(step.out.As<float>()[0])) << keys;
    EXPECT_FALSE(std::isnan(step.out.As<float>()[4 * 64])) << keys;
  }
}

TEST(OneQuery, LeavesOtherCallsToOthers) {
  Context context({.threads = 1, .implementations = ""});
  Step longer(4, 1, 64, 513);
  EXPECT_FALSE(OneQueryF32(context, longer.problem, longer.args));
  Step odd(4, 1, 18, 8);  // no whole blocks with any vector
  EXPECT_FALSE(OneQueryF32(context, odd.problem, odd.args));
  Step sinks(4, 1, 64, 8);
  sinks.problem.mask.sinks = 1;
  EXPECT_FALSE(OneQueryF32(context, sinks.problem, sinks.args));
  Step lse(4, 1, 64, 8);
  Tensor values(DType::kF32, {2, 4, 1});
  lse.args.lse = values.view();
  EXPECT_FALSE(OneQueryF32(context, lse.problem, lse.args));
  Step sink(4, 1, 64, 8);
  Tensor logits(DType::kF32, {4});
  sink.args.sink_logits = logits.view();
  EXPECT_FALSE(OneQueryF32(context, sink.problem, sink.args));
  const std::vector<int32_t> some = {1, 2};
  Step heads(4, 1, 64, 8);
  heads.args.active_heads = some;
  EXPECT_FALSE(OneQueryF32(context, heads.problem, heads.args));
}

}  // namespace
}  // namespace headwise::one_query_test
