// A precision that is asked for: operands rounded, sums and statistics not.
// The reference is the only one on the host that has such products.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <tuple>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/observation.h"
#include "headwise/ops/attention/implementation.h"
#include "headwise/ops/precision.h"

namespace headwise::attention_precision_test {
namespace {

constexpr int64_t kQueries = 7, kKeys = 33, kHeads = 2, kDim = 8, kWidth = 12;

// Forward and backward of random numbers, rounded beforehand to `stored`, by
// products of `precision`.
struct Call {
  Call(Precision stored, Precision precision, const char* implementation) {
    problem.heads = kHeads;
    problem.kv_heads = 1;
    problem.query_len = kQueries;
    problem.key_len = kKeys;
    problem.head_dim = kDim;
    problem.value_dim = kWidth;
    problem.precision = precision;
    Rng rng(3);
    const auto random = [&](std::initializer_list<int64_t> shape,
                            Precision rounded) {
      Tensor& t = Add(shape);
      for (int64_t n = 0; n < t.size(); ++n) {
        t.As<float>()[n] = RoundedTo(rounded, static_cast<float>(rng.Normal()));
      }
      return t.view();
    };
    args.q = random({1, kQueries, kHeads, kDim}, stored);
    args.k = random({1, kKeys, 1, kDim}, stored);
    args.v = random({1, kKeys, 1, kWidth}, stored);
    args.sink_logits = random({kHeads}, Precision::kStored);
    grads.dout = random({1, kQueries, kHeads, kWidth}, stored);
    args.out = out.view();
    args.lse = lse.view();
    o.rows.entropy = entropy.view();
    args.observation = &o;
    grads.dq = dq.view();
    grads.dk = dk.view();
    grads.dv = dv.view();
    Context context({.threads = 1, .implementations = implementation});
    AttentionForward(context, problem, args);
    AttentionBackward(context, problem, args, grads);
  }

  Tensor& Add(std::initializer_list<int64_t> shape) {
    return inputs.emplace_back(DType::kF32, shape);
  }

  std::deque<Tensor> inputs;
  Tensor out{DType::kF32, {1, kQueries, kHeads, kWidth}};
  Tensor lse{DType::kF32, {1, kHeads, kQueries}};
  Tensor entropy{DType::kF32, {1, kHeads, kQueries}};
  Tensor dq{DType::kF32, {1, kQueries, kHeads, kDim}};
  Tensor dk{DType::kF32, {1, kKeys, 1, kDim}};
  Tensor dv{DType::kF32, {1, kKeys, 1, kWidth}};
  AttentionProblem problem;
  AttentionArgs args;
  Observation o;
  AttentionGrads grads;
};

double WorstDifference(const Tensor& a, const Tensor& b) {
  double worst = 0;
  for (int64_t n = 0; n < a.size(); ++n) {
    const double x = a.As<float>()[n], y = b.As<float>()[n];
    worst = std::max(worst, std::abs(x - y) / std::max(1.0, std::abs(x)));
  }
  return worst;
}

TEST(AttentionPrecision, RoundsTheOperandsAndNothingElse) {
  for (const auto& [precision, unit] :
       {std::pair(Precision::kBF16, 0x1p-8), {Precision::kF16, 0x1p-11}}) {
    const Call exact(Precision::kStored, Precision::kStored, "");
    const Call before(precision, Precision::kStored, "attention:reference");
    const Call asked(Precision::kStored, precision, "attention:reference");
    // Scores are of the same operands; sink logits are none.
    for (const auto& [a, b] : {std::pair(&asked.lse, &before.lse),
                               std::pair(&asked.entropy, &before.entropy)}) {
      for (int64_t n = 0; n < a->size(); ++n) {
        EXPECT_EQ(a->As<float>()[n], b->As<float>()[n]);
      }
    }
    for (const auto& [a, b, c] :
         {std::tuple(&asked.out, &before.out, &exact.out),
          std::tuple(&asked.dq, &before.dq, &exact.dq),
          std::tuple(&asked.dk, &before.dk, &exact.dk),
          std::tuple(&asked.dv, &before.dv, &exact.dv)}) {
      EXPECT_GT(WorstDifference(*a, *b), 0);  // A and ds
      EXPECT_LT(WorstDifference(*a, *b), 2 * unit);
      EXPECT_GT(WorstDifference(*a, *c), unit / 8);
      EXPECT_LT(WorstDifference(*a, *c), 10 * unit);
    }
  }
}

TEST(AttentionPrecision, GoesToWhoeverHasSuchProducts) {
  const Call asked(Precision::kStored, Precision::kBF16, "");
  const Call truth(Precision::kStored, Precision::kBF16, "attention:reference");
  EXPECT_EQ(WorstDifference(asked.out, truth.out), 0);
  EXPECT_EQ(WorstDifference(asked.dk, truth.dk), 0);
  try {
    const Call refused(Precision::kStored, Precision::kF16,
                       "attention:cpu.f32");
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(error.what(),
                testing::HasSubstr("has no products in f16 of f32 operands"));
  }
}

}  // namespace
}  // namespace headwise::attention_precision_test
