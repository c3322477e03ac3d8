// Hand-computed cases of the attention reference.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "headwise/attention.h"
#include "headwise/observation.h"

namespace headwise {
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

}  // namespace
}  // namespace headwise
