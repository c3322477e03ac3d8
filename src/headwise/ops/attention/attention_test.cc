// Dispatch, counting and words of the attention operator.
#include "headwise/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "headwise/error.h"
#include "headwise/implementations.h"
#include "headwise/observation.h"
#include "headwise/ops/attention/geometry.h"
#include "headwise/ops/attention/implementation.h"

namespace headwise::attention_test {
namespace {

using testing::HasSubstr;

AttentionProblem Plain(int64_t queries, int64_t keys) {
  AttentionProblem problem;
  problem.query_len = queries;
  problem.key_len = keys;
  problem.head_dim = 4;
  return problem;
}

TEST(AttentionImplementations, EndWithTheReferenceWhichHasEveryPass) {
  const AttentionImplementation& last =
      AttentionImplementations().entries.back();
  EXPECT_STREQ(last.name, "reference");
  for (const AttentionPass pass : kAttentionPasses) {
    EXPECT_EQ(WhyNot(last, pass, Plain(2, 2)), "") << Name(pass);
  }
}

TEST(AttentionImplementations, OfAGramLookAtEverySource) {
  HeadSource first{Plain(2, 2), {}}, second = first;
  second.problem.type = DType::kBF16;
  const HeadSource sources[] = {first, second};
  EXPECT_EQ(kAttentionCpuF32.why_not(AttentionGramCall{{&first, 1}}), "");
  EXPECT_THAT(kAttentionCpuF32.why_not(AttentionGramCall{sources}),
              HasSubstr("bf16"));
}

TEST(AttentionImplementations, AreExplainedWithTheirReasons) {
  const auto list = ExplainAttention(Plain(2, 2)).entries;
  ASSERT_EQ(list.size(), AttentionImplementations().entries.size());
  EXPECT_EQ(list.back().name, "reference");
  EXPECT_EQ(list.back().why_not, "");
  AttentionProblem on_device = Plain(2, 2);
  on_device.device = Device::Cuda();
  EXPECT_NE(ExplainAttention(on_device).entries.back().why_not, "");
}

TEST(AttentionImplementations, WithoutProductsOfAPrecisionRefuseIt) {
  for (const Precision precision : {Precision::kBF16, Precision::kF16}) {
    AttentionProblem problem = Plain(2, 2);
    problem.precision = precision;
    for (const ImplementationNote& entry : ExplainAttention(problem).entries) {
      if (entry.name == "cpu.f32") {
        EXPECT_THAT(entry.why_not, HasSubstr("has no products in"));
      }
      EXPECT_EQ(entry.why_not.empty(), entry.name == "reference") << entry.name;
    }
  }
}

// 2 heads of width 4, 3 queries and keys, all results 7 before the call.
struct FilteredCall {
  AttentionProblem problem = Plain(3, 3);
  Tensor q{DType::kF32, {1, 3, 2, 4}}, dq{DType::kF32, {1, 3, 2, 4}};
  Tensor kv{DType::kF32, {1, 3, 2, 4}}, dk{DType::kF32, {1, 3, 2, 4}};
  Tensor dv{DType::kF32, {1, 3, 2, 4}}, out{DType::kF32, {1, 3, 2, 4}};
  Tensor lse{DType::kF32, {1, 2, 3}};
  AttentionArgs args;

  FilteredCall() {
    problem.heads = problem.kv_heads = 2;
    for (Tensor* tensor : {&dq, &dk, &dv, &out, &lse}) {
      std::fill_n(tensor->As<float>(), tensor->size(), 7.0f);
    }
    args = {.q = q.view(), .k = kv.view(), .v = kv.view(), .out = out.view()};
    args.lse = lse.view();
  }
  static bool Is(const Tensor& tensor, float value) {
    const float* begin = tensor.As<float>();
    return std::all_of(begin, begin + tensor.size(),
                       [=](float x) { return x == value; });
  }
};

TEST(HeadFilter, SaysAllSomeOrNone) {
  const std::vector<int32_t> some = {1, 3}, none;
  EXPECT_TRUE(HeadFilter().is_all());
  EXPECT_TRUE(HeadFilter(some).Has(3));
  EXPECT_FALSE(HeadFilter(some).Has(2));
  EXPECT_FALSE(HeadFilter(some).is_none());
  EXPECT_TRUE(HeadFilter(none).is_none());
  EXPECT_TRUE(HeadFilter::None().is_none());
  EXPECT_FALSE(HeadFilter::None().Has(0));
}

TEST(HeadFilter, ThatLeavesNoneRunsNone) {
  FilteredCall call;
  Context context({.threads = 1});
  const std::vector<int32_t> wanted;
  call.args.active_heads = wanted;
  AttentionForward(context, call.problem, call.args);
  EXPECT_TRUE(FilteredCall::Is(call.out, 7));
  EXPECT_TRUE(FilteredCall::Is(call.lse, 7));
  AttentionBackward(context, call.problem, call.args,
                    {.dout = call.q.view(),
                     .dq = call.dq.view(),
                     .dk = call.dk.view(),
                     .dv = call.dv.view()});
  EXPECT_TRUE(FilteredCall::Is(call.dq, 7));
  EXPECT_TRUE(FilteredCall::Is(call.dk, 0));  // no head's part
  EXPECT_TRUE(FilteredCall::Is(call.dv, 0));
  call.args.active_heads = HeadFilter::All();
  AttentionForward(context, call.problem, call.args);
  EXPECT_TRUE(FilteredCall::Is(call.out, 0));
}

// Forward of 2 queries and keys with an implementation asked for by name.
void RunWith(const std::string& name, DType type = DType::kF32,
             Device device = {}) {
  Context context({.threads = 1, .implementations = "attention:" + name});
  AttentionProblem problem = Plain(2, 2);
  problem.type = type;
  problem.device = device;
  Tensor q(type, {1, 2, 1, 4});
  Tensor out(type, {1, 2, 1, 4});
  AttentionArgs args;
  args.q = args.k = args.v = q.view();
  args.out = out.view();
  for (ConstTensorView* view : {&args.q, &args.k, &args.v}) {
    view->device = device;
  }
  args.out.device = device;
  AttentionForward(context, problem, args);
}

std::string MessageOf(ErrorCode code, const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(AttentionDispatch, TakesTheImplementationAskedFor) {
  EXPECT_NO_THROW(RunWith("reference"));
}

TEST(AttentionDispatch, UnknownNamesAreAnsweredWithTheList) {
  const std::string message =
      MessageOf(ErrorCode::kInvalidArgument, [] { RunWith("cpu.f23"); });
  for (const AttentionImplementation& entry :
       AttentionImplementations().entries) {
    EXPECT_THAT(message, HasSubstr(entry.name));
  }
  EXPECT_THAT(message, HasSubstr("cpu.f23"));
}

TEST(AttentionDispatch, ARefusalSaysWhyAndNoOtherIsTaken) {
  EXPECT_NO_THROW(RunWith("reference", DType::kBF16));
  EXPECT_THAT(MessageOf(ErrorCode::kUnsupported,
                        [] { RunWith("cpu.f32", DType::kBF16); }),
              HasSubstr("takes f32 only, not bf16"));
}

TEST(AttentionDispatch, AProblemIsWhereItsContextIs) {
  const std::string message = MessageOf(ErrorCode::kInvalidArgument, [] {
    RunWith("reference", DType::kF32, Device::Cuda(1));
  });
  EXPECT_THAT(message, HasSubstr("the context's device, cpu"));
  EXPECT_THAT(message, HasSubstr("cuda:1"));
}

TEST(AttentionFlops, CountVisiblePairsOnly) {
  for (const int64_t before : {int64_t{0}, int64_t{2}, kUnlimited}) {
    for (const int64_t after : {int64_t{0}, int64_t{3}, kUnlimited}) {
      for (const int64_t offset : {-4, 0, 3, 40}) {
        for (const int64_t sinks : {0, 2, 30}) {
          AttentionProblem problem = Plain(9, 13);
          problem.batch = 2;
          problem.heads = 3;
          problem.value_dim = 5;
          problem.mask = {before, after, offset, sinks};
          double pairs = 0;
          for (int64_t i = 0; i < 9; ++i) {
            for (int64_t j = 0; j < 13; ++j) {
              pairs += Sees(problem.mask, i + offset, j) ? 1 : 0;
            }
          }
          EXPECT_EQ(AttentionFlops(problem), 2 * (4 + 5) * pairs * 2 * 3)
              << ToString(problem);
        }
      }
    }
  }
}

TEST(AttentionProblem, DescribesItself) {
  AttentionProblem problem = Plain(2048, 2048);
  problem.heads = problem.kv_heads = 8;
  problem.head_dim = 64;
  problem.mask = AttentionMask::Causal();
  EXPECT_EQ(ToString(problem), "8 heads × 64, 2048 × 2048, causal, f32");
  problem.batch = 2;
  problem.kv_heads = 2;
  problem.value_dim = 32;
  problem.type = DType::kBF16;
  problem.mask = AttentionMask::SlidingWindow(128, 5, 4);
  problem.bias = AttentionBias::kAlibi;
  problem.soft_cap = 30;
  EXPECT_EQ(ToString(problem),
            "2 sequences, 8 heads on 2 × 64 → 32, 2048 × 2048, window 128, "
            "offset 5, 4 sinks, ALiBi, soft-cap 30, bf16");
  problem = Plain(2, 2);
  problem.precision = Precision::kBF16;
  EXPECT_EQ(ToString(problem), "1 head × 4, 2 × 2, no mask, f32, in bf16");
  problem.precision = Precision::kF16;
  EXPECT_THAT(ToString(problem), HasSubstr("f32, in f16"));
}

TEST(HistogramBucket, DoublesWithDistanceOnBothSides) {
  EXPECT_EQ(HistogramBucket(0), kHistogramCenter);
  EXPECT_EQ(HistogramBucket(1), kHistogramCenter + 1);
  EXPECT_EQ(HistogramBucket(2), kHistogramCenter + 2);
  EXPECT_EQ(HistogramBucket(3), kHistogramCenter + 2);
  EXPECT_EQ(HistogramBucket(4), kHistogramCenter + 3);
  EXPECT_EQ(HistogramBucket(-1), kHistogramCenter - 1);
  EXPECT_EQ(HistogramBucket(-7), kHistogramCenter - 3);
  EXPECT_EQ(HistogramBucket(int64_t{1} << 40), kHistogramBuckets - 1);
  EXPECT_EQ(HistogramBucket(-(int64_t{1} << 40)), 0);
  EXPECT_EQ(HistogramBucket(std::numeric_limits<int64_t>::min()), 0);
}

}  // namespace
}  // namespace headwise::attention_test
