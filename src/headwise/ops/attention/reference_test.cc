// Hand-computed cases of the attention reference.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "headwise/attention.h"
#include "headwise/observation.h"

namespace headwise::reference_test {
namespace {

ContextOptions UseReference() {
  return {.threads = 1, .implementations = "attention:reference"};
}

// One head of 1-dimensional q = 0: every row is uniform over what it sees.
struct Uniform {
  explicit Uniform(int64_t n, AttentionMask mask)
      : problem{.query_len = n, .key_len = n, .head_dim = 1, .mask = mask},
        q(DType::kF32, {1, n, 1, 1}),
        k(DType::kF32, {1, n, 1, 1}),
        v(DType::kF32, {1, n, 1, 1}),
        out(DType::kF32, {1, n, 1, 1}),
        lse(DType::kF32, {1, 1, n}) {
    for (int64_t j = 0; j < n; ++j) v.As<float>()[j] = static_cast<float>(j);
    args.q = q.view();
    args.k = k.view();
    args.v = v.view();
    args.out = out.view();
    args.lse = lse.view();
  }

  AttentionProblem problem;
  Tensor q, k, v, out, lse;
  AttentionArgs args;
  Context context{UseReference()};
};

TEST(AttentionReference, UniformRowsOverTheCausalPast) {
  Uniform u(4, AttentionMask::Causal());
  Tensor entropy(DType::kF32, {1, 1, 4});
  Tensor argmax(DType::kI32, {1, 1, 4});
  Tensor distance(DType::kF32, {1, 1, 4});
  Tensor squares(DType::kF32, {1, 1, 4});
  Tensor varentropy(DType::kF32, {1, 1, 4});
  Tensor sums(DType::kF64, {1, 1, kSumColumns});
  Observation o;
  o.statistics = Statistics::kFull;
  o.rows.entropy = entropy.view();
  o.rows.argmax = argmax.view();
  o.rows.distance = distance.view();
  o.rows.sum_squares = squares.view();
  o.rows.varentropy = varentropy.view();
  o.summed.sums = sums.view();
  u.args.observation = &o;
  AttentionForward(u.context, u.problem, u.args);
  for (int i = 0; i < 4; ++i) {
    const float n = static_cast<float>(i + 1);
    EXPECT_FLOAT_EQ(u.out.As<float>()[i], i / 2.0f);  // mean of 0 … i
    EXPECT_FLOAT_EQ(u.lse.As<float>()[i], std::log(n));
    EXPECT_FLOAT_EQ(entropy.As<float>()[i], std::log(n));
    EXPECT_EQ(argmax.As<int32_t>()[i], 0);  // first of equal keys
    EXPECT_FLOAT_EQ(distance.As<float>()[i], i / 2.0f);
    EXPECT_FLOAT_EQ(squares.As<float>()[i], 1 / n);
    EXPECT_NEAR(varentropy.As<float>()[i], 0, 1e-12);
  }
  const double* s = sums.As<double>();
  EXPECT_DOUBLE_EQ(s[kSumCount], 4);
  EXPECT_NEAR(s[kSumEntropy], std::log(24), 1e-12);
  EXPECT_NEAR(s[kSumNormalizedEntropy], 3, 1e-12);  // one key: adds 0
  EXPECT_DOUBLE_EQ(s[kSumVisible], 10);
  EXPECT_DOUBLE_EQ(s[kSumArgmaxDistance], 6);
  EXPECT_DOUBLE_EQ(s[kSumNonFinite], 0);
}

TEST(AttentionReference, OneHotRowsHaveNoEntropy) {
  // Query i asks for key 3 − i with a score of 1000.
  Uniform u(4, AttentionMask::None());
  AttentionProblem problem = u.problem;
  problem.head_dim = 4;
  Tensor q(DType::kF32, {1, 4, 1, 4});
  Tensor k(DType::kF32, {1, 4, 1, 4});
  for (int i = 0; i < 4; ++i) {
    k.As<float>()[i * 4 + i] = 1;
    q.As<float>()[i * 4 + 3 - i] = 2000;
  }
  problem.value_dim = 1;
  u.args.q = q.view();
  u.args.k = k.view();
  Tensor entropy(DType::kF32, {1, 1, 4});
  Tensor maximum(DType::kF32, {1, 1, 4});
  Tensor argmax(DType::kI32, {1, 1, 4});
  Tensor histogram(DType::kF32, {1, 1, 4, kHistogramBuckets});
  Observation o;
  o.statistics = Statistics::kFull;
  o.rows.entropy = entropy.view();
  o.rows.max_probability = maximum.view();
  o.rows.argmax = argmax.view();
  o.rows.histogram = histogram.view();
  u.args.observation = &o;
  AttentionForward(u.context, problem, u.args);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(u.out.As<float>()[i], 3 - i);
    EXPECT_EQ(u.lse.As<float>()[i], 1000);
    EXPECT_EQ(entropy.As<float>()[i], 0);
    EXPECT_EQ(maximum.As<float>()[i], 1);
    EXPECT_EQ(argmax.As<int32_t>()[i], 3 - i);
    const int bucket = HistogramBucket(i - (3 - i));
    EXPECT_EQ(histogram.As<float>()[i * kHistogramBuckets + bucket], 1);
  }
}

TEST(AttentionReference, RowsThatSeeNothingGetTheReplacement) {
  // Queries 0 and 1 stand before the first key; query 3 is past the length.
  Uniform u(4, AttentionMask::Causal(-2));
  const float gates[] = {0.25f};
  const float mu[] = {8};
  const int32_t length[] = {3};
  u.args.gates = View(gates, {1, 4, 1});
  u.args.gates.stride = {0, 0, 1};
  u.args.replacement = View(mu, {1, 4, 1, 1});
  u.args.replacement.stride = {0, 0, 1, 1};
  u.args.query_lengths = ConstTensorView(length, DType::kI32, {1});
  Tensor argmax(DType::kI32, {1, 1, 4});
  Tensor sums(DType::kF64, {1, 1, kSumColumns});
  Observation o;
  o.rows.argmax = argmax.view();
  o.summed.sums = sums.view();
  u.args.observation = &o;
  for (int i = 0; i < 4; ++i) u.out.As<float>()[i] = NAN;
  AttentionForward(u.context, u.problem, u.args);
  const float expected[] = {6, 6, 6, 0};  // (1 − g)·μ; key 0 has value 0
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(u.out.As<float>()[i], expected[i]) << i;
    EXPECT_EQ(u.lse.As<float>()[i], i == 2 ? 0 : -INFINITY) << i;
    EXPECT_EQ(argmax.As<int32_t>()[i], i == 2 ? 0 : -1) << i;
  }
  EXPECT_EQ(sums.As<double>()[kSumCount], 1);
  EXPECT_EQ(sums.As<double>()[kSumVisible], 1);
  EXPECT_EQ(sums.As<double>()[kSumNonFinite], 0);
}

TEST(AttentionReference, NanStaysWhereItIsSeen) {
  // A NaN key and value at 2 under a causal mask; a NaN query at 0.
  Uniform u(4, AttentionMask::Causal());
  u.q.As<float>()[0] = NAN;
  u.k.As<float>()[2] = NAN;
  u.v.As<float>()[2] = NAN;
  Tensor entropy(DType::kF32, {1, 1, 4});
  Tensor sums(DType::kF64, {1, 1, kSumColumns});
  Observation o;
  o.rows.entropy = entropy.view();
  o.summed.sums = sums.view();
  u.args.observation = &o;
  AttentionForward(u.context, u.problem, u.args);
  for (const int i : {0, 2, 3}) {
    EXPECT_TRUE(std::isnan(u.out.As<float>()[i])) << i;
    EXPECT_TRUE(std::isnan(u.lse.As<float>()[i])) << i;
    EXPECT_TRUE(std::isnan(entropy.As<float>()[i])) << i;
  }
  EXPECT_FLOAT_EQ(u.out.As<float>()[1], 0.5f);
  EXPECT_FLOAT_EQ(entropy.As<float>()[1], std::log(2.0f));
  EXPECT_EQ(sums.As<double>()[kSumNonFinite], 3);
  EXPECT_EQ(sums.As<double>()[kSumCount], 1);
}

TEST(AttentionReference, ScoresOfMinusInfinityAreAsGoodAsUnseen) {
  Uniform u(3, AttentionMask::None());
  AttentionProblem problem = u.problem;
  problem.bias = AttentionBias::kRelative;
  problem.relative_reach = 1;
  const float closed[] = {-INFINITY, -INFINITY, 0};  // only later keys
  u.args.relative_table = View(closed, {1, 3});
  AttentionForward(u.context, problem, u.args);
  EXPECT_FLOAT_EQ(u.out.As<float>()[0], 1.5f);
  EXPECT_FLOAT_EQ(u.out.As<float>()[1], 2.0f);
  EXPECT_EQ(u.out.As<float>()[2], 0.0f);
  EXPECT_EQ(u.lse.As<float>()[2], -INFINITY);
  u.v.As<float>()[1] = NAN;
  AttentionForward(u.context, problem, u.args);
  EXPECT_TRUE(std::isnan(u.out.As<float>()[0]));
  EXPECT_EQ(u.out.As<float>()[2], 0.0f) << "no value reaches it";
}

}  // namespace
}  // namespace headwise::reference_test
