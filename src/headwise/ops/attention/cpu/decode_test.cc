// Few queries a head: heads that are worked on side by side do not touch each
// other's numbers.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "headwise/attention.h"
#include "headwise/base/rng.h"
#include "headwise/observation.h"
#include "headwise/tensor/slice.h"

namespace headwise::decode_test {
namespace {

Tensor Random(Rng& rng, const Shape& shape) {
  Tensor x(DType::kF32, shape);
  for (int64_t i = 0; i < x.size(); ++i) {
    x.As<float>()[i] = static_cast<float>(rng.Normal());
  }
  return x;
}

// A small call with all that is written by head: out [B, M, H, E], lse and
// entropies [B, H, M].
struct Call {
  AttentionProblem problem;
  Tensor q, k, v, out, lse, entropy;

  explicit Call(uint64_t seed) {
    Rng rng(seed);
    const auto some = [&](int64_t most) {
      return 1 + static_cast<int64_t>(rng.Below(most));
    };
    problem.batch = some(3);
    problem.kv_heads = some(9);
    problem.heads = problem.kv_heads * some(4);
    problem.query_len = some(4);
    problem.key_len = some(seed % 2 == 0 ? 6 : 90);
    problem.head_dim = some(40);
    problem.value_dim = some(40);
    if (rng.Below(2) == 0) {
      problem.mask = AttentionMask::Causal(problem.key_len - problem.query_len);
    }
    q = Random(rng, {problem.batch, problem.query_len, problem.heads,
                     problem.head_dim});
    k = Random(rng, {problem.batch, problem.key_len, problem.kv_heads,
                     problem.head_dim});
    v = Random(rng, {problem.batch, problem.key_len, problem.kv_heads,
                     problem.value_dim});
    // One head's NaN is no other's.
    if (rng.Below(3) == 0) {
      v.As<float>()[rng.Below(v.size())] =
          std::numeric_limits<float>::quiet_NaN();
    }
    out = Tensor(DType::kF32, {problem.batch, problem.query_len, problem.heads,
                               problem.value_dim});
    const Shape rows = {problem.batch, problem.heads, problem.query_len};
    lse = Tensor(DType::kF32, rows);
    entropy = Tensor(DType::kF32, rows);
  }

  // Of heads [begin, end).
  void Run(Context& context, int64_t begin, int64_t end) {
    const int64_t share = problem.heads / problem.kv_heads;
    const int64_t first = begin / share, last = (end - 1) / share + 1;
    AttentionProblem part = problem;
    part.heads = end - begin;
    part.kv_heads = last - first;
    Observation seen;
    seen.rows.entropy = Slice(entropy.view(), 1, begin, end);
    AttentionForward(context, part,
                     {.q = Slice(q.view(), 2, begin, end),
                      .k = Slice(k.view(), 2, first, last),
                      .v = Slice(v.view(), 2, first, last),
                      .out = Slice(out.view(), 2, begin, end),
                      .lse = Slice(lse.view(), 1, begin, end),
                      .observation = &seen});
  }
};

bool SameBits(const Tensor& a, const Tensor& b) {
  return std::memcmp(a.As<float>(), b.As<float>(),
                     static_cast<size_t>(a.size()) * sizeof(float)) == 0;
}

TEST(Decode, HeadsSideBySideHaveTheBitsOfHeadsAlone) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Context context({.threads = 1 + static_cast<int>(seed % 3)});
    Call together(seed), alone(seed);
    const int64_t heads = together.problem.heads;
    together.Run(context, 0, heads);
    for (int64_t h = 0; h < heads; ++h) alone.Run(context, h, h + 1);
    EXPECT_TRUE(SameBits(together.lse, alone.lse));
    EXPECT_TRUE(SameBits(together.entropy, alone.entropy));
    // Values are added up four heads of a group at a time, or one by one.
    if (together.problem.kv_heads == heads) {
      EXPECT_TRUE(SameBits(together.out, alone.out));
    }
  }
}

}  // namespace
}  // namespace headwise::decode_test
