// Heads and queries that see or serve only a part: they cost what they see, and
// the results are those of the whole.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/ops/attention/cpu/forward_plan.h"
#include "headwise/tensor/slice.h"

namespace headwise::part_test {
namespace {

constexpr int64_t kDim = 8;

Tensor Random(uint64_t seed, const Shape& shape) {
  Tensor tensor(DType::kF32, shape);
  Rng rng(seed);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    tensor.As<float>()[i] = static_cast<float>(rng.Normal());
  }
  return tensor;
}

void ExpectNear(const Tensor& a, const Tensor& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (int64_t i = 0; i < a.size(); ++i) {
    const double x = a.As<float>()[i], y = b.As<float>()[i];
    if (x == y) continue;  // also −∞
    ASSERT_NEAR(x, y, 1e-4 * std::max(1.0, std::abs(y))) << what << " " << i;
  }
}

// Outputs and gradients of one call.
struct Results {
  Tensor out, lse, dq, dk, dv, dtable;
};

Results RunBoth(const std::string& implementation,
                const AttentionProblem& problem, AttentionArgs args) {
  Context context({.threads = 2, .implementations = implementation});
  const Shape q = {args.q.shape[0], args.q.shape[1], problem.heads, kDim};
  const Shape k = {args.k.shape[0], args.k.shape[1], problem.heads, kDim};
  Results r = {
      Tensor(DType::kF32, q), Tensor(DType::kF32, {q[0], problem.heads, q[1]}),
      Tensor(DType::kF32, q), Tensor(DType::kF32, k),
      Tensor(DType::kF32, k), {}};
  args.out = r.out.view();
  args.lse = r.lse.view();
  AttentionForward(context, problem, args);
  const Tensor dout = Random(9, q);
  AttentionGrads grads;
  grads.dout = dout.view();
  grads.dq = r.dq.view();
  grads.dk = r.dk.view();
  grads.dv = r.dv.view();
  if (args.relative_table) {
    r.dtable = Tensor(DType::kF32, {args.relative_table.shape[0],
                                    args.relative_table.shape[1]});
    grads.drelative_table = r.dtable.view();
  }
  AttentionBackward(context, problem, args, grads);
  return r;
}

void ExpectSame(const AttentionProblem& problem, const AttentionArgs& args) {
  const Results ours = RunBoth("attention:cpu.f32", problem, args);
  const Results truth = RunBoth("attention:reference", problem, args);
  ExpectNear(ours.out, truth.out, "out");
  ExpectNear(ours.lse, truth.lse, "lse");
  ExpectNear(ours.dq, truth.dq, "dq");
  ExpectNear(ours.dk, truth.dk, "dk");
  ExpectNear(ours.dv, truth.dv, "dv");
  if (args.relative_table) ExpectNear(ours.dtable, truth.dtable, "dtable");
}

// Head 0 sees 7 positions back and 3 ahead, head 1 everything.
class SpanTest : public testing::TestWithParam<AttentionMask> {
 protected:
  SpanTest() : table_(Random(4, {2, 2 * kLength + 1})) {
    float* row = table_.As<float>();
    for (int64_t i = 0; i <= 2 * kLength; ++i) {
      if (i < kLength - 7 || i > kLength + 3) {
        row[i] = -std::numeric_limits<float>::infinity();
      }
    }
    problem_.heads = problem_.kv_heads = 2;
    problem_.query_len = problem_.key_len = kLength;
    problem_.head_dim = kDim;
    problem_.bias = AttentionBias::kRelative;
    problem_.relative_reach = kLength;
    problem_.mask = GetParam();
    args_.q = q_.view();
    args_.k = k_.view();
    args_.v = v_.view();
    args_.relative_table = table_.view();
  }

  static constexpr int64_t kLength = 300;
  Tensor q_ = Random(1, {1, kLength, 2, kDim}),
         k_ = Random(2, {1, kLength, 2, kDim}),
         v_ = Random(3, {1, kLength, 2, kDim}), table_;
  AttentionProblem problem_;
  AttentionArgs args_;
};

TEST_P(SpanTest, AShortSpanBesideALongOneGivesWhatItDid) {
  ExpectSame(problem_, args_);
}

TEST_P(SpanTest, AShortSpanBesideALongOneCostsLittle) {
  double work[2] = {};
  const ForwardCall call(problem_, args_);
  for (const ForwardGroup& group : PlanForward(call, 1)) {
    for (const BlockTask& task : group.tasks) work[task.head] += task.work;
  }
  EXPECT_LE(work[0], 11.0 * kLength);
  EXPECT_GT(work[1], 0.4 * kLength * kLength);
}

INSTANTIATE_TEST_SUITE_P(Masks, SpanTest,
                         testing::Values(AttentionMask::Causal(),
                                         AttentionMask::None()),
                         [](const auto& info) {
                           return info.index == 0 ? "Causal" : "None";
                         });

// Two sequences of which some queries are there.
class PlacedTest : public testing::Test {
 protected:
  PlacedTest() {
    for (int32_t sequence = 0; sequence < 2; ++sequence) {
      for (int32_t i = 0; i < kLengths[sequence]; ++i) {
        if (rng_.Uniform() < 0.6) continue;
        positions_.push_back(i);
        rows_.push_back(sequence * kLengths[0] + i);
      }
      starts_.push_back(static_cast<int32_t>(positions_.size()));
    }
    problem_.batch = 2;
    problem_.query_len = problem_.key_len = kLengths[0];
    problem_.head_dim = kDim;
    problem_.packed = true;
    problem_.mask = AttentionMask::SlidingWindow(150, 0, 2);
    q_ = Tensor(DType::kF32, {1, std::ssize(rows_), 1, kDim});
    for (size_t r = 0; r < rows_.size(); ++r) {
      std::copy_n(all_.As<float>() + rows_[r] * kDim, kDim,
                  q_.As<float>() + static_cast<int64_t>(r) * kDim);
    }
    args_.q = q_.view();
    args_.k = k_.view();
    args_.v = v_.view();
    args_.query_starts = ViewOf(std::as_const(starts_));
    args_.key_starts = ViewOf(std::as_const(key_starts_));
    args_.query_offsets = ViewOf(std::as_const(positions_));
  }

  static constexpr int32_t kLengths[] = {400, 220};
  static constexpr int64_t kTotal = 620;
  Rng rng_{7};
  Tensor all_ = Random(1, {1, kTotal, 1, kDim}),
         k_ = Random(2, {1, kTotal, 1, kDim}),
         v_ = Random(3, {1, kTotal, 1, kDim}), q_;
  std::vector<int32_t> starts_ = {0}, key_starts_ = {0, 400, 620}, positions_,
                       rows_;
  AttentionProblem problem_;
  AttentionArgs args_;
};

TEST_F(PlacedTest, QueriesMayStandAnywhere) { ExpectSame(problem_, args_); }

TEST_F(PlacedTest, TheirOutputsAreThoseAmongAllQueries) {
  const Results some = RunBoth("attention:cpu.f32", problem_, args_);
  AttentionArgs all = args_;
  all.q = all_.view();
  all.query_starts = all.key_starts;
  all.query_offsets = {};
  const Results whole = RunBoth("attention:cpu.f32", problem_, all);
  for (size_t r = 0; r < rows_.size(); ++r) {
    for (int64_t c = 0; c < kDim; ++c) {
      ASSERT_EQ(some.out.As<float>()[static_cast<int64_t>(r) * kDim + c],
                whole.out.As<float>()[rows_[r] * kDim + c])
          << r;
    }
  }
}

TEST_F(PlacedTest, PositionsThatFallAreRefused) {
  std::swap(positions_[3], positions_[4]);
  EXPECT_THROW(RunBoth("attention:cpu.f32", problem_, args_), Error);
}

}  // namespace
}  // namespace headwise::part_test
