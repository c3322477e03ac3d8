// The operator on a GPU through its public door: contexts with queues of their
// own, and which path takes what. Skipped where there is no GPU; the numbers of
// cuda.plain are held to the reference by agreement_test.cc, those of the fast
// paths by tools/bench_gpu.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "headwise/backend/device_backend.h"
#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/ops/attention/implementation.h"
#include "headwise/ops/attention/padding.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/half.h"

namespace headwise::device_test {
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

TEST(AttentionOnDevice, ViewsThatAPathCannotReadGoToTheNext) {
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
  // Rows that begin between 16-byte pieces are read one by one.
  step.args = whole;
  step.args.q.data = static_cast<const uint16_t*>(whole.q.data) + 4;
  step.args.q.shape[1] = step.args.out.shape[1] = kLen - 1;
  step.args.lse.shape[2] = step.problem.query_len = kLen - 1;
  EXPECT_EQ(step.ChosenForward(), "cuda.plain");
  EXPECT_NO_THROW(step.Forward());
  Context fast({.threads = 1,
                .implementations = "attention:cuda.sm80",
                .device = Device::Cuda()});
  try {
    AttentionForward(fast, step.problem, step.args);
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

TEST(AttentionOnDevice, WhatTheFastPathsLackThePlainOneTakes) {
  const auto context = OnDevice();
  if (context == nullptr) GTEST_SKIP() << "no GPU";
  Step step(*context, 1);
  const AttentionArgs none;
  const auto chosen = [&] {
    return step.Chosen(AttentionForwardCall{step.problem, none});
  };
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    step.problem.type = type;
    for (int64_t width = 1; width <= 256; ++width) {
      step.problem.head_dim = width;
      const bool is_plain = type == DType::kF32 || width % 8 != 0 ||
                            (type == DType::kF16 && width > 128);
      ASSERT_EQ(chosen() == "cuda.plain", is_plain)
          << Name(type) << " " << width;
    }
  }
}

TEST(AttentionOnDevice, KeysOfLatentAttentionAreWiderThanItsValues) {
  const auto context = OnDevice();
  if (context == nullptr) GTEST_SKIP() << "no GPU";
  Step step(*context, 1);
  const AttentionArgs none;
  step.problem.head_dim = 192;
  step.problem.value_dim = 128;
  const AttentionForwardCall call{step.problem, none};
  EXPECT_EQ(step.Chosen(call), "cuda.sm80");
  step.problem.type = DType::kF16;
  EXPECT_EQ(step.Chosen(call), "cuda.plain");
}

TEST(AttentionOnDevice, ProductsAreOfTheStoredType) {
  const auto context = OnDevice();
  if (context == nullptr) GTEST_SKIP() << "no GPU";
  Step step(*context, 1);
  const std::string usual = step.ChosenForward();
  step.problem.precision = Precision::kBF16;
  EXPECT_EQ(step.ChosenForward(), usual);
  step.problem.precision = Precision::kF16;
  try {
    step.Forward();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(error.what(), HasSubstr("no products in f16 of bf16 operands"));
    EXPECT_THAT(error.what(), HasSubstr("no products in f16 of f32 operands"));
  }
}

// Heads that are no multiple of 8 wide, by the fast paths and by cuda.plain.
struct AnyWidth {
  AnyWidth(Context& owner, int64_t head_dim, int64_t value_dim, uint64_t seed)
      : context(owner) {
    constexpr int64_t kRows = 70;
    problem.heads = 4;
    problem.kv_heads = 2;
    problem.query_len = problem.key_len = kRows;
    problem.head_dim = head_dim;
    problem.value_dim = value_dim;
    problem.type = DType::kBF16;
    problem.device = owner.device();
    problem.mask = AttentionMask::Causal();
    Rng rng(seed);
    const auto add = [&](int64_t heads, int64_t width) {
      const Tensor host = NormalTensor({1, kRows, heads, width}, rng);
      tensors.push_back(Tensor(owner, DType::kBF16, {1, kRows, heads, width}));
      Copy(owner, host.view(), tensors.back().view());
      owner.Synchronize();
      return tensors.back().view();
    };
    args.q = add(4, head_dim);
    args.k = add(2, head_dim);
    args.v = add(2, value_dim);
    args.out = add(4, value_dim);
    tensors.push_back(Tensor(owner, DType::kF32, {1, 4, kRows}));
    args.lse = tensors.back().view();
    grads.dout = add(4, value_dim);
    grads.dq = add(4, head_dim);
    grads.dk = add(2, head_dim);
    grads.dv = add(2, value_dim);
    const auto of_heads = [&](const Tensor& host) {
      tensors.push_back(Tensor(owner, DType::kF32, {4}));
      Copy(owner, host.view(), tensors.back().view());
      owner.Synchronize();
      return tensors.back().view();
    };
    args.sink_logits = of_heads(NormalTensor({4}, rng));
    grads.dsink_logits = of_heads(NormalTensor({4}, rng));
  }

  static Tensor NormalTensor(const Shape& shape, Rng& rng) {
    Tensor tensor(DType::kF32, shape);
    for (int64_t i = 0; i < tensor.size(); ++i) {
      tensor.As<float>()[i] = static_cast<float>(rng.Normal());
    }
    return tensor;
  }

  // out, lse, dq, dk, dv, dsink_logits.
  std::vector<std::vector<float>> Run() {
    AttentionForward(context, problem, args);
    AttentionBackward(context, problem, args, grads);
    std::vector<std::vector<float>> results;
    for (const TensorView& view : {args.out, args.lse, grads.dq, grads.dk,
                                   grads.dv, grads.dsink_logits}) {
      results.push_back(ToVector<float>(context, view));
    }
    return results;
  }

  Context& context;
  AttentionProblem problem;
  AttentionArgs args;
  AttentionGrads grads;
  std::deque<Tensor> tensors;
};

TEST(AttentionOnDevice, HeadsOfEveryWidthRunOnTheFastPaths) {
  const auto fast = OnDevice();
  if (fast == nullptr) GTEST_SKIP() << "no GPU";
  Context plain({.threads = 1,
                 .implementations = "attention:cuda.plain",
                 .device = Device::Cuda()});
  for (int64_t width = 1; width <= 256; width += width < 40 ? 1 : 13) {
    const int64_t value_dim = width % 3 == 0 ? (width * 7) % 256 + 1 : width;
    const uint64_t seed = static_cast<uint64_t>(width);
    AnyWidth a(*fast, width, value_dim, seed);
    AnyWidth b(plain, width, value_dim, seed);
    for (const AttentionPass pass :
         {AttentionPass::kForward, AttentionPass::kBackward}) {
      const HeadWidths widths = BestWidths(*fast, pass, a.problem);
      ASSERT_EQ(widths.head_dim % 8, 0) << width;
      ASSERT_EQ(widths.value_dim % 8, 0) << width;
      ASSERT_EQ(std::string(WhyNot(kAttentionCudaSm80, pass,
                                   Widened(a.problem, widths))),
                "");
      ASSERT_EQ(BestWidths(plain, pass, b.problem), OwnWidths(b.problem));
    }
    const auto found = a.Run(), truth = b.Run();
    for (size_t i = 0; i < truth.size(); ++i) {
      float most = 1;
      for (const float x : truth[i]) most = std::max(most, std::abs(x));
      for (size_t n = 0; n < truth[i].size(); ++n) {
        ASSERT_NEAR(found[i][n], truth[i][n], 2e-2 * most)
            << "heads of " << width << " and " << value_dim << ", result " << i
            << ", element " << n;
      }
    }
  }
}

// The band of a fast path beside whole rows of A.
TEST(AttentionOnDevice, BandsAreDiagonalsOfTheRows) {
  const auto context = OnDevice();
  if (context == nullptr) GTEST_SKIP() << "no GPU";
  constexpr int64_t kBefore = 2, kAfter = 1, kWidth = kBefore + kAfter + 1;
  for (const DType type : {DType::kBF16, DType::kF16}) {
    Step step(*context, 1, type);
    step.Forward();
    Tensor mass(*context, DType::kF32, {1, kHeads, kLen, kWidth});
    const AttentionBandCall call{step.problem, step.args, kBefore, kAfter,
                                 mass.view()};
    EXPECT_NE(step.Chosen(call), "cuda.plain");
    Tensor first(*context, DType::kF32, {1, kHeads, kLen});
    AttentionBand(*context, step.problem, step.args, kBefore, kAfter,
                  mass.view(), first.view());
    std::vector<RowRef> rows;
    for (int64_t i = 0; i < kLen; ++i) rows.push_back({0, i});
    Tensor dense(*context, DType::kF32, {kLen, kHeads, kLen});
    AttentionRows(*context, step.problem, step.args, rows, dense.view());
    const std::vector<uint8_t> band = BytesOf(*context, mass);
    const std::vector<uint8_t> all = BytesOf(*context, dense);
    const std::vector<uint8_t> of_first = BytesOf(*context, first);
    const auto at = [](const std::vector<uint8_t>& bytes, int64_t n) {
      float value;
      std::memcpy(&value, bytes.data() + n * sizeof(float), sizeof(float));
      return value;
    };
    double total = 0;
    for (int64_t h = 0; h < kHeads; ++h) {
      for (int64_t i = 0; i < kLen; ++i) {
        const float rest = at(all, (i * kHeads + h) * kLen);
        ASSERT_NEAR(at(of_first, h * kLen + i), rest, 1e-5 * rest);
        for (int64_t c = 0; c < kWidth; ++c) {
          const int64_t j = i - kBefore + c;
          const bool exists = j >= 0 && j < kLen;
          const float found = at(band, (h * kLen + i) * kWidth + c);
          const float expected =
              exists ? at(all, (i * kHeads + h) * kLen + j) : 0;
          // Products are summed in another order; what is unseen is exactly 0.
          ASSERT_NEAR(found, expected, 1e-5 * expected)
              << h << " " << i << " " << j;
          ASSERT_TRUE(j <= i || found == 0) << "masked";
          total += found;
        }
      }
    }
    EXPECT_GT(total, 1) << "something is there";
  }
}

// The attention of GPT-2 small's twelve layers over 1024 tokens of f32.
TEST(AttentionOnDevice, PlainIsNotAbsurdlySlow) {
  const auto context = OnDevice();
  if (context == nullptr) GTEST_SKIP() << "no GPU";
  const Shape shape = {1, 1024, 12, 64};
  const Tensor q(*context, DType::kF32, shape);
  Tensor out(*context, DType::kF32, shape);
  AttentionProblem problem;
  problem.heads = problem.kv_heads = 12;
  problem.query_len = problem.key_len = 1024;
  problem.head_dim = 64;
  problem.device = context->device();
  problem.mask = AttentionMask::Causal();
  AttentionArgs args;
  args.q = args.k = args.v = q.view();
  args.out = out.view();
  AttentionForward(*context, problem, args);
  context->Synchronize();
  const auto begin = std::chrono::steady_clock::now();
  for (int layer = 0; layer < 12; ++layer) {
    AttentionForward(*context, problem, args);
  }
  context->Synchronize();
  const std::chrono::duration<double> time =
      std::chrono::steady_clock::now() - begin;
  std::printf("[ cuda.plain ] GPT-2 small, 1024 tokens, f32: %.1f ms\n",
              1e3 * time.count());
  EXPECT_LT(time.count(), 1);
}

}  // namespace
}  // namespace headwise::device_test
