// The operator on a GPU through its public door: contexts with queues of their
// own, and which path takes what. Skipped where there is no GPU; numbers are
// held to the reference by tools/bench_gpu.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "headwise/backend/device_backend.h"
#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/ops/attention/implementation.h"
#include "headwise/tensor/half.h"

namespace headwise {
namespace {

using testing::HasSubstr;

constexpr int64_t kLen = 300, kHeads = 4, kDim = 64;

// A context on the first GPU, or null where there is none.
std::unique_ptr<Context> OnDevice() {
  try {
    return std::make_unique<Context>(ContextOptions{
        .threads = 1, .implementations = "", .device = Device::Cuda()});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    return nullptr;
  }
}

// [1, kLen, kHeads, kDim] of normal numbers.
Tensor Random(Context& context, DType type, uint64_t seed) {
  Rng rng(seed);
  std::vector<uint16_t> values(kLen * kHeads * kDim);
  for (uint16_t& value : values) {
    const float x = static_cast<float>(rng.Normal());
    value = type == DType::kBF16 ? ToBf16(x) : ToF16(x);
  }
  Tensor tensor(context, type, {1, kLen, kHeads, kDim});
  context.backend()->Copy(tensor.view().data, values.data(), tensor.bytes());
  context.Synchronize();
  return tensor;
}

std::vector<uint8_t> BytesOf(Context& context, const Tensor& tensor) {
  std::vector<uint8_t> bytes(tensor.bytes());
  context.backend()->Copy(bytes.data(), tensor.view().data, bytes.size());
  context.Synchronize();
  return bytes;
}

// A causal forward and backward of one problem, in a context's memory.
struct Step {
  Step(Context& owner, uint64_t seed, DType type = DType::kBF16)
      : context(owner),
        q(Random(owner, type, seed)),
        k(Random(owner, type, seed + 1)),
        v(Random(owner, type, seed + 2)),
        dout(Random(owner, type, seed + 3)),
        out(owner, type, {1, kLen, kHeads, kDim}),
        dq(owner, type, {1, kLen, kHeads, kDim}),
        lse(owner, DType::kF32, {1, kHeads, kLen}),
        dentropy(owner, DType::kF32, {1, kHeads, kLen}) {
    problem.heads = problem.kv_heads = kHeads;
    problem.query_len = problem.key_len = kLen;
    problem.head_dim = kDim;
    problem.type = type;
    problem.device = owner.device();
    problem.mask = AttentionMask::Causal();
    args.q = q.view();
    args.k = k.view();
    args.v = v.view();
    args.out = out.view();
    args.lse = lse.view();
    grads.dout = dout.view();
    grads.dq = dq.view();
  }

  void Forward() { AttentionForward(context, problem, args); }
  void Backward() { AttentionBackward(context, problem, args, grads); }
  std::vector<uint8_t> Results() {
    std::vector<uint8_t> all = BytesOf(context, out);
    for (const Tensor* tensor : {&lse, &dq}) {
      const std::vector<uint8_t> bytes = BytesOf(context, *tensor);
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    return all;
  }
  std::string Chosen(const AttentionCall& call) const {
    return Choose(context, AttentionImplementations(), call).name;
  }
  std::string ChosenForward() const {
    return Chosen(AttentionForwardCall{problem, args});
  }
  std::string ChosenBackward() const {
    return Chosen(AttentionBackwardCall{problem, args, grads});
  }
  bool IsHopper() const {
    return WhyNot(kAttentionCudaSm90, AttentionPass::kForward, problem).empty();
  }

  Context& context;
  Tensor q, k, v, dout, out, dq, lse, dentropy;
  AttentionProblem problem;
  AttentionArgs args;
  AttentionGrads grads;
};

TEST(AttentionOnDevice, TwoContextsInTurnGiveTheSameAsOne) {
  const auto left = OnDevice();
  if (left == nullptr) GTEST_SKIP() << "no GPU";
  const auto right = OnDevice();
  for (uint64_t seed = 1; seed < 40; seed += 8) {
    Step a(*left, seed), b(*left, seed + 4);
    for (Step* step : {&a, &b}) {
      step->Forward();
      step->Backward();
    }
    // The queues run beside each other.
    Step again_a(*left, seed), again_b(*right, seed + 4);
    again_a.Forward();
    again_b.Forward();
    again_a.Backward();
    again_b.Backward();
    EXPECT_TRUE(a.Results() == again_a.Results()) << seed;
    EXPECT_TRUE(b.Results() == again_b.Results()) << seed;
  }
}

TEST(AttentionOnDevice, ABackwardThatHopperLacksGoesToThePortablePath) {
  const auto context = OnDevice();
  if (context == nullptr) GTEST_SKIP() << "no GPU";
  Step bf16(*context, 1);
  if (!bf16.IsHopper()) GTEST_SKIP() << "no Hopper chip";
  EXPECT_EQ(bf16.ChosenForward(), "cuda.sm90");
  EXPECT_EQ(bf16.ChosenBackward(), "cuda.sm90");
  bf16.grads.dentropy = bf16.dentropy.view();
  EXPECT_EQ(bf16.ChosenBackward(), "cuda.sm80");
  bf16.Forward();
  EXPECT_NO_THROW(bf16.Backward());
  Step f16(*context, 1, DType::kF16);
  EXPECT_EQ(f16.ChosenForward(), "cuda.sm90");
  EXPECT_EQ(f16.ChosenBackward(), "cuda.sm80");
}

TEST(AttentionOnDevice, ViewsThatAPathCannotReadAreRefused) {
  const auto context = OnDevice();
  if (context == nullptr) GTEST_SKIP() << "no GPU";
  Step step(*context, 1);
  // Keys from the last to the first: no box of the copy engine's.
  const AttentionArgs whole = step.args;
  step.args.k.data =
      static_cast<const uint16_t*>(whole.k.data) + (kLen - 1) * kHeads * kDim;
  step.args.k.stride[1] = -whole.k.stride[1];
  EXPECT_EQ(step.ChosenForward(), "cuda.sm80");
  EXPECT_NO_THROW(step.Forward());
  // Rows that begin between 16-byte pieces: nobody's.
  step.args = whole;
  step.args.q.data = static_cast<const uint16_t*>(whole.q.data) + 4;
  step.args.q.shape[1] = step.args.out.shape[1] = kLen - 1;
  step.args.lse.shape[2] = step.problem.query_len = kLen - 1;
  try {
    step.Forward();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(error.what(), HasSubstr("rows of q aligned to 16 bytes"));
  }
}

TEST(AttentionOnDevice, NoKeysAtAllGiveZeros) {
  const auto context = OnDevice();
  if (context == nullptr) GTEST_SKIP() << "no GPU";
  Step step(*context, 1);
  step.Forward();
  step.problem.key_len = 0;
  step.args.k = step.args.v = {};
  step.Forward();
  step.Backward();
  for (const uint8_t byte : BytesOf(*context, step.out)) ASSERT_EQ(byte, 0);
  for (const uint8_t byte : BytesOf(*context, step.dq)) ASSERT_EQ(byte, 0);
}

TEST(AttentionOnDevice, ThereIsNoBandAndItIsSaid) {
  const auto context = OnDevice();
  if (context == nullptr) GTEST_SKIP() << "no GPU";
  Step step(*context, 1);
  Tensor mass(*context, DType::kF32, {1, kHeads, kLen, 2});
  try {
    AttentionBand(*context, step.problem, step.args, 1, 0, mass.view());
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(error.what(), HasSubstr("has no band pass"));
  }
}

}  // namespace
}  // namespace headwise
