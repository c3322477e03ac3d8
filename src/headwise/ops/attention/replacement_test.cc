// The slope by a gate that is not given, and is 1, towards what would stand in
// for its head.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "headwise/attention.h"
#include "headwise/base/rng.h"
#include "headwise/ops/test_device.h"
#include "headwise/ops/test_values.h"

namespace headwise::replacement_test {
namespace {

constexpr int64_t kBatch = 2, kRows = 24, kHeads = 2, kDim = 64;

// ∂L/∂g = ⟨dout, O − μ⟩.
void ExpectSlopes(Context& context, DType type) {
  AttentionProblem p;
  p.batch = kBatch;
  p.heads = p.kv_heads = kHeads;
  p.query_len = p.key_len = kRows;
  p.head_dim = p.value_dim = kDim;
  p.type = type;
  p.device = context.device();
  p.mask = AttentionMask::Causal();
  Rng rng(3);
  const Shape shape = {kBatch, kRows, kHeads, kDim};
  Tensor q = RandomTensor(type, shape, rng), k = RandomTensor(type, shape, rng),
         v = RandomTensor(type, shape, rng),
         dout = RandomTensor(type, shape, rng),
         mu = RandomTensor(DType::kF32, shape, rng);
  Tensor out(type, shape), dq(type, shape), dk(type, shape), dv(type, shape);
  Tensor lse(DType::kF32, {kBatch, kHeads, kRows});
  Tensor dgates(DType::kF32, {kBatch, kRows, kHeads});
  Mirror at(context);
  AttentionArgs args;
  args.q = at(std::as_const(q).view());
  args.k = at(std::as_const(k).view());
  args.v = at(std::as_const(v).view());
  args.replacement = at(std::as_const(mu).view());
  args.out = at(out.view());
  args.lse = at(lse.view());
  AttentionGrads grads;
  grads.dout = at(std::as_const(dout).view());
  grads.dq = at(dq.view());
  grads.dk = at(dk.view());
  grads.dv = at(dv.view());
  grads.dgates = at(dgates.view());
  if (!IsTaken([&] { AttentionForward(context, p, args); })) return;
  AttentionBackward(context, p, args, grads);
  at.Back();
  const auto o = ToVector(out.view()), d = ToVector(dout.view()),
             m = ToVector(mu.view()), slopes = ToVector(dgates.view());
  for (size_t row = 0; row < slopes.size(); ++row) {
    double slope = 0;
    for (size_t i = row * kDim; i < (row + 1) * kDim; ++i) {
      slope += d[i] * (o[i] - m[i]);
    }
    ASSERT_NEAR(slopes[row], slope, 1e-3 * std::max(1.0, std::abs(slope)))
        << row;
  }
}

TEST(AttentionReplacement, AGateThatIsNotGivenHasItsSlope) {
  for (const char* name :
       {"reference", "cpu.f32", "cuda.plain", "cuda.sm80", "cuda.sm90"}) {
    const auto context = ContextFor("attention", name);
    if (!context) continue;
    SCOPED_TRACE(name);
    const bool halves = std::string(name).starts_with("cuda.sm");
    ExpectSlopes(*context, halves ? DType::kBF16 : DType::kF32);
  }
}

}  // namespace
}  // namespace headwise::replacement_test
