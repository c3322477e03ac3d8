// What must hold of every implementation, the reference included, whatever the
// numbers are: one batch in three forms, ties, nothing at all.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <string>

#include "headwise/base/rng.h"
#include "headwise/ops/attention/implementation.h"
#include "headwise/ops/attention/testing/tolerances.h"

namespace headwise::equivalence_test {
namespace {

class EveryAttention : public testing::TestWithParam<std::string> {
 protected:
  EveryAttention()
      : context_({.threads = 2, .implementations = "attention:" + GetParam()}) {
  }

  void SetUp() override {
    AttentionProblem plain;
    plain.head_dim = 1;
    for (const AttentionImplementation& entry :
         AttentionImplementations().entries) {
      const std::string reason = WhyNot(entry, AttentionPass::kForward, plain);
      if (entry.name == GetParam() && !reason.empty()) GTEST_SKIP() << reason;
    }
  }

  Tensor Random(std::initializer_list<int64_t> shape) {
    Tensor tensor(DType::kF32, shape);
    for (int64_t n = 0; n < tensor.size(); ++n) {
      tensor.As<float>()[n] = static_cast<float>(rng_.Normal());
    }
    return tensor;
  }

  Context context_;
  Rng rng_{1};
};

// Slices of a [total, row] array.
const float* RowsFrom(const Tensor& tensor, int64_t first) {
  const int64_t row = tensor.size() / tensor.shape(1);
  return tensor.As<float>() + first * row;
}

TEST_P(EveryAttention, PackedRaggedAndSeparateSequencesAgree) {
  constexpr int64_t kHeads = 2, kDim = 16, kLongest = 70;
  const int32_t starts[] = {0, 3, 3, 73, 90};  // lengths 3, 0, 70, 17
  const int32_t lengths[] = {3, 0, 70, 17};
  constexpr int64_t kBatch = 4, kTotal = 90;
  const Tensor q = Random({1, kTotal, kHeads, kDim});
  const Tensor k = Random({1, kTotal, kHeads, kDim});
  const Tensor v = Random({1, kTotal, kHeads, kDim});
  AttentionProblem problem;
  problem.heads = problem.kv_heads = kHeads;
  problem.head_dim = kDim;
  problem.mask = AttentionMask::Causal();

  Tensor packed(DType::kF32, {1, kTotal, kHeads, kDim});
  AttentionArgs args;
  args.q = q.view();
  args.k = k.view();
  args.v = v.view();
  args.out = packed.view();
  args.query_starts = args.key_starts =
      ConstTensorView(starts, DType::kI32, {kBatch + 1});
  problem.packed = true;
  problem.batch = kBatch;
  problem.query_len = problem.key_len = kLongest;
  AttentionForward(context_, problem, args);

  // The same rows, each sequence padded to the longest.
  std::deque<Tensor> padded;
  for (const Tensor* source : {&q, &k, &v}) {
    Tensor& t = padded.emplace_back(
        DType::kF32,
        std::initializer_list<int64_t>{kBatch, kLongest, kHeads, kDim});
    for (int64_t b = 0; b < kBatch; ++b) {
      std::memcpy(t.As<float>() + b * kLongest * kHeads * kDim,
                  RowsFrom(*source, starts[b]),
                  lengths[b] * kHeads * kDim * sizeof(float));
    }
  }
  Tensor ragged(DType::kF32, {kBatch, kLongest, kHeads, kDim});
  args = {};
  args.q = padded[0].view();
  args.k = padded[1].view();
  args.v = padded[2].view();
  args.out = ragged.view();
  args.query_lengths = args.key_lengths =
      ConstTensorView(lengths, DType::kI32, {kBatch});
  problem.packed = false;
  AttentionForward(context_, problem, args);

  Tensor separate(DType::kF32, {1, kTotal, kHeads, kDim});
  for (int64_t b = 0; b < kBatch; ++b) {
    const int64_t n = lengths[b];
    AttentionProblem one = problem;
    one.batch = 1;
    one.query_len = one.key_len = n;
    args = {};
    args.q = View(RowsFrom(q, starts[b]), {1, n, kHeads, kDim});
    args.k = View(RowsFrom(k, starts[b]), {1, n, kHeads, kDim});
    args.v = View(RowsFrom(v, starts[b]), {1, n, kHeads, kDim});
    args.out = View(const_cast<float*>(RowsFrom(separate, starts[b])),
                    {1, n, kHeads, kDim});
    AttentionForward(context_, one, args);
  }

  const float tolerance = static_cast<float>(
      4 * AttentionToleranceOf(DType::kF32).output);  // |v| < 4
  for (int64_t b = 0; b < kBatch; ++b) {
    for (int64_t n = 0; n < lengths[b] * kHeads * kDim; ++n) {
      const float expected = RowsFrom(packed, starts[b])[n];
      const int64_t at = b * kLongest * kHeads * kDim + n;
      ASSERT_NEAR(ragged.As<float>()[at], expected, tolerance);
      ASSERT_NEAR(RowsFrom(separate, starts[b])[n], expected, tolerance);
    }
  }
}

TEST_P(EveryAttention, ExactTiesTakeTheFirstKey) {
  // Small integers: scores are exact, and one in about twenty is the largest.
  constexpr int64_t kLen = 300, kDim = 8;
  AttentionProblem problem;
  problem.query_len = problem.key_len = kLen;
  problem.head_dim = kDim;
  problem.scale = 1;
  Tensor q(DType::kF32, {1, kLen, 1, kDim});
  Tensor k(DType::kF32, {1, kLen, 1, kDim});
  for (Tensor* t : {&q, &k}) {
    for (int64_t n = 0; n < t->size(); ++n) {
      t->As<float>()[n] = static_cast<float>(rng_.Between(0, 1));
    }
  }
  Tensor out(DType::kF32, {1, kLen, 1, kDim});
  Tensor argmax(DType::kI32, {1, 1, kLen});
  Tensor maximum(DType::kF32, {1, 1, kLen});
  Observation o;
  o.rows.argmax = argmax.view();
  o.rows.max_probability = maximum.view();
  AttentionArgs args;
  args.q = q.view();
  args.k = args.v = k.view();
  args.out = out.view();
  args.observation = &o;
  AttentionForward(context_, problem, args);
  for (int64_t i = 0; i < kLen; ++i) {
    int64_t best = 0;
    double best_score = -1;
    for (int64_t j = 0; j < kLen; ++j) {
      double score = 0;
      for (int64_t d = 0; d < kDim; ++d) {
        score += q.As<float>()[i * kDim + d] * k.As<float>()[j * kDim + d];
      }
      if (score > best_score) {
        best = j;
        best_score = score;
      }
    }
    ASSERT_EQ(argmax.As<int32_t>()[i], best) << "row " << i;
  }
}

TEST_P(EveryAttention, NothingToDoIsDone) {
  Tensor some(DType::kF32, {2, 3, 1, 4});
  Tensor out = Random({2, 3, 1, 4});
  Tensor sums(DType::kF64, {2, 1, kSumColumns});
  Observation o;
  o.summed.sums = sums.view();
  AttentionProblem problem;
  problem.head_dim = 4;
  problem.batch = 0;
  problem.query_len = problem.key_len = 3;
  EXPECT_NO_THROW(AttentionForward(context_, problem, {}));

  // No keys: every row is zero, and counted nowhere.
  problem.batch = 2;
  problem.key_len = 0;
  AttentionArgs args;
  args.q = some.view();
  args.out = out.view();
  args.observation = &o;
  sums.As<double>()[0] = 7;
  AttentionForward(context_, problem, args);
  for (int64_t n = 0; n < out.size(); ++n) EXPECT_EQ(out.As<float>()[n], 0);
  EXPECT_EQ(sums.As<double>()[kSumCount], 0);

  // No queries: sums of nothing.
  problem.query_len = 0;
  problem.key_len = 3;
  args = {};
  args.k = args.v = some.view();
  args.observation = &o;
  sums.As<double>()[0] = 7;
  AttentionForward(context_, problem, args);
  EXPECT_EQ(sums.As<double>()[kSumCount], 0);
}

std::vector<std::string> AllNames() {
  std::vector<std::string> names;
  for (const AttentionImplementation& entry :
       AttentionImplementations().entries) {
    names.push_back(entry.name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, EveryAttention, testing::ValuesIn(AllNames()),
                         [](const auto& param_info) {
                           std::string name = param_info.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace headwise::equivalence_test
