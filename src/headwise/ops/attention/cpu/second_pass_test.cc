// cpu.f32's second passes against the reference, and what they promise.
#include "headwise/ops/attention/cpu/second_pass.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "headwise/ops/attention/cpu/random_case.h"

namespace headwise {
namespace {

constexpr float kTolerance = 2e-5f;

void ExpectNear(const Tensor& a, const Tensor& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (int64_t i = 0; i < a.size(); ++i) {
    const double x =
        a.type() == DType::kF64 ? a.As<double>()[i] : a.As<float>()[i];
    const double y =
        a.type() == DType::kF64 ? b.As<double>()[i] : b.As<float>()[i];
    ASSERT_NEAR(x, y, kTolerance * std::max(1.0, std::abs(y)))
        << what << " at " << i;
  }
}

std::vector<RowRef> AllRows(const RandomCase& c) {
  std::vector<RowRef> rows;
  for (int64_t b = 0; b < c.problem.batch; ++b) {
    const int64_t n = c.problem.packed
                          ? c.args.query_starts.As<int32_t>()[b + 1] -
                                c.args.query_starts.As<int32_t>()[b]
                          : c.problem.query_len;
    for (int64_t i = 0; i < n; ++i) rows.push_back({b, i});
  }
  return rows;
}

class SecondPass : public testing::TestWithParam<int> {
 protected:
  Context one_{ContextOptions{1, ""}};
  Context two_{ContextOptions{2, ""}};
};

TEST_P(SecondPass, AgreesWithTheReference) {
  RandomCase c(GetParam());
  const AttentionProblem& p = c.problem;
  SCOPED_TRACE(ToString(p));
  const AttentionImplementation& reference = kAttentionReference;
  reference.forward(one_, p, c.args);
  const std::vector<RowRef> rows = AllRows(c);
  const int64_t n = static_cast<int64_t>(rows.size());
  Tensor dense(DType::kF32, {n, p.heads, p.key_len});
  Tensor expected(DType::kF32, {n, p.heads, p.key_len});
  RowsF32(two_, p, c.args, rows, dense.view());
  reference.rows(one_, p, c.args, rows, expected.view());
  ExpectNear(dense, expected, "rows");

  Tensor keys(DType::kI32, {n, p.heads, 5}),
      keys2 = Tensor(DType::kI32, {n, p.heads, 5});
  Tensor top(DType::kF32, {n, p.heads, 5}),
      top2 = Tensor(DType::kF32, {n, p.heads, 5});
  TopKF32(two_, p, c.args, rows, keys.view(), top.view());
  reference.top_k(one_, p, c.args, rows, keys2.view(), top2.view());
  ExpectNear(top, top2, "top-k");

  const int64_t b = c.args.k.shape[0], m = c.args.q.shape[1],
                total = c.args.k.shape[1];
  TensorView weights = c.Make({b, m}, 1.0f);
  Tensor received(DType::kF32, {b, p.heads, total});
  Tensor received2(DType::kF32, {b, p.heads, total});
  ReceivedF32(two_, p, c.args, weights, received.view());
  reference.received(one_, p, c.args, weights, received2.view());
  ExpectNear(received, received2, "received");

  const std::vector<HeadSource> sources{{p, c.args}, {p, c.args}};
  Tensor gram(DType::kF64, {2 * p.heads, 2 * p.heads});
  Tensor gram2(DType::kF64, {2 * p.heads, 2 * p.heads});
  HeadGramF32(two_, sources, {}, gram.view());
  reference.gram(one_, sources, {}, gram2.view());
  ExpectNear(gram, gram2, "gram");

  WindowRequest w{
      0,        c.heads.empty() ? 0 : c.heads[0], 0, p.query_len, p.key_len / 3,
      p.key_len};
  Tensor maximum(DType::kF32, {7, 9}), mean(DType::kF32, {7, 9});
  Tensor maximum2(DType::kF32, {7, 9}), mean2(DType::kF32, {7, 9});
  if (!p.packed) {
    WindowF32(two_, p, c.args, w, maximum.view(), mean.view());
    reference.window(one_, p, c.args, w, maximum2.view(), mean2.view());
    ExpectNear(maximum, maximum2, "maximum");
    ExpectNear(mean, mean2, "mean");
  }
}

INSTANTIATE_TEST_SUITE_P(Random, SecondPass, testing::Range(0, 150));

}  // namespace
}  // namespace headwise
