// Laws that cpu.f32's second passes keep, beyond agreement with the reference
// (../agreement_test.cc).
#include "headwise/ops/attention/cpu/second_pass.h"

#include <gtest/gtest.h>

#include <vector>

#include "headwise/base/rng.h"

namespace headwise::second_pass_test {
namespace {

// Two heads of 16, causal, long enough for several blocks and panels.
struct Call {
  static constexpr int64_t kLength = 333;
  explicit Call(uint64_t seed)
      : q(DType::kF32, {1, kLength, 2, 16}),
        k(DType::kF32, {1, kLength, 2, 16}),
        out(DType::kF32, {1, kLength, 2, 16}),
        lse(DType::kF32, {1, 2, kLength}) {
    problem.heads = problem.kv_heads = 2;
    problem.query_len = problem.key_len = kLength;
    problem.head_dim = 16;
    problem.mask = AttentionMask::Causal();
    Rng rng(seed);
    for (Tensor* t : {&q, &k}) {
      for (int64_t i = 0; i < t->size(); ++i) {
        t->As<float>()[i] = static_cast<float>(1.5 * rng.Normal());
      }
    }
    args.q = q.view();
    args.k = args.v = k.view();
    args.out = out.view();
    args.lse = lse.view();
    AttentionForward(context, problem, args);
  }

  Context context{ContextOptions{2, ""}};
  AttentionProblem problem;
  Tensor q, k, out, lse;
  AttentionArgs args;
};

TEST(SecondPass, ReceivedAttentionAddsUpToTheNumberOfQueries) {
  Call call(1);
  Tensor received(DType::kF32, {1, 2, Call::kLength});
  ReceivedF32(call.context, call.problem, call.args, {}, received.view());
  double sum = 0;
  for (int64_t i = 0; i < received.size(); ++i) sum += received.As<float>()[i];
  EXPECT_NEAR(sum, 2 * Call::kLength, 1e-3);
}

TEST(SecondPass, AHeadIsLikeItselfAndEveryPairIsSymmetric) {
  Call a(1), b(2);
  const std::vector<HeadSource> sources{{a.problem, a.args},
                                        {b.problem, b.args}};
  Tensor gram(DType::kF64, {4, 4});
  HeadGramF32(a.context, sources, {}, gram.view());
  const double* g = gram.As<double>();
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(g[i * 4 + i], 1, 1e-5);
    for (int j = 0; j < i; ++j) {
      EXPECT_EQ(g[i * 4 + j], g[j * 4 + i]);
      EXPECT_LT(g[i * 4 + j], 1);
      EXPECT_GT(g[i * 4 + j], 0);
    }
  }
}

TEST(SecondPass, ABandIsTheNearPartOfItsRows) {
  Call call(4);
  constexpr int64_t kBefore = 19, kAfter = 2, kBand = kBefore + kAfter + 1;
  std::vector<RowRef> rows;
  for (int64_t i = 0; i < Call::kLength; ++i) rows.push_back({0, i});
  Tensor dense(DType::kF32, {Call::kLength, 2, Call::kLength});
  RowsF32(call.context, call.problem, call.args, rows, dense.view());
  Tensor band(DType::kF32, {1, 2, Call::kLength, kBand});
  Tensor first(DType::kF32, {1, 2, Call::kLength});
  BandF32(call.context, call.problem, call.args, kBefore, kAfter, band.view(),
          first.view());
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t i = 0; i < Call::kLength; ++i) {
      const float most = dense.As<float>()[(i * 2 + h) * Call::kLength];
      EXPECT_NEAR(first.As<float>()[h * Call::kLength + i], most, 1e-5 * most);
      for (int64_t c = 0; c < kBand; ++c) {
        const int64_t j = i - kBefore + c;
        const float expected =
            j < 0 || j >= Call::kLength
                ? 0
                : dense.As<float>()[(i * 2 + h) * Call::kLength + j];
        // Products are summed in another order; what is unseen is exactly 0.
        EXPECT_NEAR(band.As<float>()[(h * Call::kLength + i) * kBand + c],
                    expected, 1e-5 * expected);
      }
    }
  }
}

TEST(SecondPass, AWindowAtFullResolutionIsItsRows) {
  Call call(3);
  const std::vector<RowRef> rows{{0, 200}, {0, 201}};
  Tensor dense(DType::kF32, {2, 2, Call::kLength});
  RowsF32(call.context, call.problem, call.args, rows, dense.view());
  Tensor largest(DType::kF32, {2, 50}), mean(DType::kF32, {2, 50});
  WindowF32(call.context, call.problem, call.args, {0, 1, 200, 202, 160, 210},
            largest.view(), mean.view());
  for (int r = 0; r < 2; ++r) {
    for (int c = 0; c < 50; ++c) {
      // Keys 202 … 209 are not seen.
      const float p = dense.As<float>()[(r * 2 + 1) * Call::kLength + 160 + c];
      EXPECT_FLOAT_EQ(largest.As<float>()[r * 50 + c], p);
      EXPECT_FLOAT_EQ(mean.As<float>()[r * 50 + c], p);
    }
  }
}

}  // namespace
}  // namespace headwise::second_pass_test
