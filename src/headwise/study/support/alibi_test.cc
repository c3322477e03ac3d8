// Biases through queries and keys are the operator's own.
#include "headwise/study/support/alibi.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "headwise/attention.h"
#include "headwise/base/rng.h"
#include "headwise/context.h"

namespace headwise::alibi_test {
namespace {

constexpr int64_t kHeads = 4, kDim = 8, kRows = 11;
constexpr int32_t kStarts[] = {0, 7, kRows};

std::vector<float> RandomValues(Rng& rng) {
  std::vector<float> values(kRows * kHeads * kDim);
  for (float& value : values) value = static_cast<float>(rng.Normal());
  return values;
}

// The last of a head's dimensions is the bias's.
void LeaveOutLast(std::vector<float>& values) {
  for (size_t i = kDim - 1; i < values.size(); i += kDim) values[i] = 0;
}

TEST(AlibiBiasTest, IsTheBiasOfTheOperator) {
  Rng rng(3, 1);
  std::vector<float> q = RandomValues(rng), k = RandomValues(rng);
  const std::vector<float> v = RandomValues(rng);
  LeaveOutLast(q);
  LeaveOutLast(k);
  std::vector<float> slopes;
  for (int64_t h = 0; h < kHeads; ++h) {
    slopes.push_back(static_cast<float>(AlibiSlope(h, kHeads)));
  }
  EXPECT_FLOAT_EQ(slopes[0], 0.25f);
  AttentionProblem problem;
  problem.batch = 2;
  problem.heads = problem.kv_heads = kHeads;
  problem.query_len = problem.key_len = 7;
  problem.head_dim = kDim;
  problem.mask = AttentionMask::Causal();
  problem.packed = true;
  const Shape shape = {1, kRows, kHeads, kDim};
  Context context({.threads = 1, .implementations = ""});
  const auto run = [&](bool by_hook) {
    std::vector<float> out(v.size());
    AttentionProblem own = problem;
    AttentionArgs args;
    args.q = View(std::as_const(q).data(), shape);
    args.k = View(std::as_const(k).data(), shape);
    args.v = View(v.data(), shape);
    args.out = View(out.data(), shape);
    args.query_starts = args.key_starts =
        ConstTensorView(kStarts, DType::kI32, {3});
    AlibiBias hook;
    if (by_hook) {
      hook.BeforeAttention({}, own, args);
    } else {
      own.bias = AttentionBias::kAlibi;
      args.alibi_slopes = View(std::as_const(slopes).data(), {kHeads});
    }
    AttentionForward(context, own, args);
    return out;
  };
  const std::vector<float> biased = run(false), hooked = run(true);
  for (size_t i = 0; i < biased.size(); ++i) {
    EXPECT_NEAR(biased[i], hooked[i], 1e-5) << i;
  }
}

TEST(AlibiBiasTest, ItsDimensionDoesNotLearn) {
  std::vector<float> dq(kRows * kHeads * kDim, 1.0f), dk = dq;
  AttentionGrads grads;
  grads.dq = View(dq.data(), {1, kRows, kHeads, kDim});
  grads.dk = View(dk.data(), {1, kRows, kHeads, kDim});
  AlibiBias().AfterAttentionBackward({}, {}, {}, grads);
  for (size_t i = 0; i < dq.size(); ++i) {
    const float want = i % kDim == kDim - 1 ? 0.0f : 1.0f;
    EXPECT_EQ(dq[i], want) << i;
    EXPECT_EQ(dk[i], want) << i;
  }
}

}  // namespace
}  // namespace headwise::alibi_test
