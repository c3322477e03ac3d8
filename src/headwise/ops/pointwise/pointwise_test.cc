#include "headwise/ops/pointwise/pointwise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/ops/check_view.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/pointwise/implementation.h"
#include "headwise/ops/test_device.h"
#include "headwise/ops/test_values.h"
#include "headwise/tensor/element.h"
#include "headwise/tensor/slice.h"

namespace headwise::pointwise_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<double> Values(const ConstTensorView& view) {
  Context context({1, ""});
  return ToVector<double>(context, view);
}

void RunCall(Context& context, const PointwiseCall& call) {
  switch (call.kind) {
    case PointwiseKind::kAdd:
      return Add(context, call.a, call.b, call.y);
    case PointwiseKind::kAddScaled:
      return AddScaled(context, call.a, call.factor, call.b, call.y);
    case PointwiseKind::kMultiply:
      return Multiply(context, call.a, call.b, call.y);
    case PointwiseKind::kScale:
      return Scale(context, call.factor, call.a, call.y);
    case PointwiseKind::kColumnSums:
      return AddColumnSums(context, call.a, call.y);
    case PointwiseKind::kSumOfSquares:
      return AddSumOfSquares(context, call.a, call.y);
    case PointwiseKind::kBeyond:
      return MarkBeyond(context, call.a, call.factor, call.y);
  }
}

// Some of a larger tensor: columns, a transpose, a repeated row or column.
ConstTensorView RandomView(const Tensor& of, Rng& rng) {
  const int64_t rows = of.shape(0), columns = of.shape(1);
  const ConstTensorView all = of.view();
  switch (rng.Below(5)) {
    case 0:
      return Columns(all, 0, columns / 2);
    case 1:
      return Broadcast(Columns(At(all, 0, 0), 0, columns / 2),
                       {rows, columns / 2});
    case 2:
      return Broadcast(Columns(all, 1, 2), {rows, columns / 2});
    default:
      return Columns(all, columns - columns / 2, columns);
  }
}

DType ResultType(const PointwiseCall& call, DType type) {
  return call.kind == PointwiseKind::kSumOfSquares ? DType::kF64
         : call.kind == PointwiseKind::kBeyond     ? DType::kI32
         : call.kind == PointwiseKind::kColumnSums ? DType::kF32
                                                   : type;
}

TEST(Pointwise, EveryImplementationAgreesWithTheReferenceOverThreads) {
  const uint64_t seed = 20264;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Rng rng(seed);
  int served = 0;
  for (int round = 0; round < 210; ++round) {
    const int64_t rows = 1 + static_cast<int64_t>(rng.Below(40));
    const int64_t wide = rng.Below(4) == 0 ? 2000 : 100;
    const int64_t columns = 4 + static_cast<int64_t>(rng.Below(wide));
    const DType type = round % 4 == 3   ? DType::kBF16
                       : round % 8 == 6 ? DType::kF16
                                        : DType::kF32;
    const Tensor a = RandomTensor(type, {rows, columns}, rng);
    const Tensor b = RandomTensor(type, {rows, columns}, rng);
    PointwiseCall call = {.kind = static_cast<PointwiseKind>(round % 7),
                          .a = RandomView(a, rng),
                          .b = RandomView(b, rng),
                          .factor = 2.5f};
    if (rng.Below(3) == 0) {  // transposed
      call.a = Transposed(call.a, 0, 1);
      call.b = Transposed(call.b, 0, 1);
    }
    if (Reduces(call) && rng.Below(3) == 0) {
      call.a = Rows(a.view(), 0, (rows + 1) / 2);
    }
    const int64_t last = call.a.shape[1];
    const Shape shape = Reduces(call) ? Shape{1} : ShapeOf(call.a);
    const Shape sums = {last};
    const Tensor before = RandomTensor(
        ResultType(call, type),
        call.kind == PointwiseKind::kColumnSums ? sums : shape, rng);
    Context plain({1, ""}), reference({1, "pointwise:reference"});
    Tensor truth = ToHost(plain, before.view());
    call.y = truth.view();
    RunCall(reference, call);
    for (const auto& entry : PointwiseImplementations().entries) {
      const auto context = ContextFor("pointwise", entry.name);
      if (!context) continue;
      SCOPED_TRACE(std::string(entry.name) + " kind " +
                   std::to_string(round % 7) + " " + ToString(call.a));
      Tensor found = ToHost(plain, before.view());
      Mirror at(*context);
      PointwiseCall there = call;
      there.a = at(call.a);
      there.b = at(call.b);
      there.y = at(found.view());
      if (!entry.why_not(there).empty()) continue;
      RunCall(*context, there);
      at.Back();
      // The product of AddScaled is rounded, too, and may be the larger part.
      const bool twice =
          call.kind == PointwiseKind::kAddScaled && found.type() != DType::kF32;
      const double tolerance = (twice ? 3 : 1) * Tolerance(found.type());
      const auto left = Values(found.view()), right = Values(truth.view());
      for (size_t i = 0; i < left.size(); ++i) {
        ASSERT_NEAR(left[i], right[i],
                    tolerance * std::max(1.0, std::abs(right[i])))
            << "element " << i;
      }
      ++served;
    }
  }
  EXPECT_GT(served, 300);
}

// Sums of many blocks, large enough for several kernels to share, and the same
// each time.
TEST(Pointwise, LargeSumsOnADeviceAreThoseOfTheHostAndRepeat) {
  const auto context = ContextFor("pointwise", "cuda.reduce");
  if (!context) GTEST_SKIP() << "no GPU here";
  Context host({2, ""});
  Rng rng(20265);
  for (const DType type : {DType::kF32, DType::kBF16}) {
    // One that is loaded number by number, and one in packs.
    const int64_t width = type == DType::kF32 ? 401 : 776;
    const Tensor x = RandomTensor(type, {3000, width}, rng);
    std::vector<float> wanted(width), sums(width), again(width);
    AddColumnSums(host, x.view(), ViewOf(wanted));
    const double squares = SumOfSquares(host, x.view());
    std::vector<double> found = {0, 0};
    std::vector<int32_t> marks = {0, 0};
    Mirror at(*context);
    const ConstTensorView there = at(std::as_const(x).view());
    AddColumnSums(*context, there, at(ViewOf(sums)));
    AddColumnSums(*context, there, at(ViewOf(again)));
    const TensorView two = at(ViewOf(found)), mark = at(ViewOf(marks));
    AddSumOfSquares(*context, there, Rows(two, 0, 1));
    AddSumOfSquares(*context, there, Rows(two, 1, 2));
    MarkBeyond(*context, there, 0.5f, Rows(mark, 0, 1));
    MarkBeyond(*context, there, 1e9f, Rows(mark, 1, 2));
    at.Back();
    for (size_t i = 0; i < sums.size(); ++i) {
      ASSERT_NEAR(sums[i], wanted[i], 1e-5 * (1 + std::abs(wanted[i])));
    }
    EXPECT_EQ(sums, again);
    EXPECT_NEAR(found[0], squares, 1e-9 * squares);
    EXPECT_EQ(found[0], found[1]);
    EXPECT_THAT(marks, ElementsAre(1, 0));
  }
}

TEST(Pointwise, TheReferenceIsTheFormula) {
  Context context({1, "pointwise:reference"});
  const std::vector<float> a = {1, 2, 3, 4}, b = {10, 20, 30, 40};
  std::vector<float> y(4);
  Add(context, ViewOf(a), ViewOf(b), ViewOf(y));
  EXPECT_THAT(y, ElementsAre(11, 22, 33, 44));
  AddScaled(context, ViewOf(a), -0.5f, ViewOf(b), ViewOf(y));
  EXPECT_THAT(y, ElementsAre(-4, -8, -12, -16));
  Multiply(context, ViewOf(a), ViewOf(b), ViewOf(y));
  EXPECT_THAT(y, ElementsAre(10, 40, 90, 160));
  Scale(context, 3, ViewOf(a), ViewOf(y));
  EXPECT_THAT(y, ElementsAre(3, 6, 9, 12));
  std::vector<float> sums = {100, 200};
  AddColumnSums(context, Reshaped(ViewOf(a), {2, 2}), ViewOf(sums));
  EXPECT_THAT(sums, ElementsAre(104, 206));
  EXPECT_EQ(SumOfSquares(context, ViewOf(a)), 30);
  EXPECT_TRUE(AllWithin(context, ViewOf(a), 4));
  EXPECT_FALSE(AllWithin(context, ViewOf(a), 3.5f));
  EXPECT_EQ(FirstBeyond(context, ViewOf(a), 2), 2);
}

// What the layers of a network do with it, value by value.
TEST(Pointwise, SumsAndProductsOfF32AreRoundedOnceAStep) {
  Rng rng(3);
  Context context({2, ""});
  const int64_t rows = 37, width = 1003;
  const Tensor a = RandomTensor(DType::kF32, {rows, width}, rng),
               b = RandomTensor(DType::kF32, {rows, width}, rng),
               row = RandomTensor(DType::kF32, {width}, rng),
               column = RandomTensor(DType::kF32, {rows, 1}, rng);
  Tensor add = ToHost(context, a.view()), scaled = ToHost(context, a.view()),
         bias = ToHost(context, a.view()), gains = ToHost(context, a.view());
  AddTo(context, b.view(), add.view());
  AddScaled(context, a.view(), 0.3f, b.view(), scaled.view());
  AddTo(context, Broadcast(row.view(), {rows, width}), bias.view());
  Multiply(context, gains.view(), Broadcast(column.view(), {rows, width}),
           gains.view());
  for (int64_t i = 0; i < rows * width; ++i) {
    const float x = a.As<float>()[i], y = b.As<float>()[i];
    const volatile float product = 0.3f * y;  // no fused product and sum
    ASSERT_EQ(add.As<float>()[i], x + y);
    ASSERT_EQ(scaled.As<float>()[i], x + product);
    ASSERT_EQ(bias.As<float>()[i], x + row.As<float>()[i % width]);
    ASSERT_EQ(gains.As<float>()[i], x * column.As<float>()[i / width]);
  }
}

TEST(Pointwise, ColumnSumsAreInDoubleOverRowsInOrderOnAnyThreads) {
  Rng rng(4);
  const int64_t batch = 3, rows = 41, width = 130;
  const Tensor x = RandomTensor(DType::kF32, {batch, rows, width}, rng);
  const Tensor before = RandomTensor(DType::kF32, {width}, rng);
  // Sequences with a gap between them.
  const ConstTensorView view = Slice(x.view(), 1, 1, rows);
  for (const int threads : {1, 3}) {
    Context context({threads, ""});
    Tensor sums = ToHost(context, before.view());
    AddColumnSums(context, view, sums.view());
    for (int64_t c = 0; c < width; ++c) {
      double sum = 0;
      for (int64_t b = 0; b < batch; ++b) {
        for (int64_t r = 1; r < rows; ++r) {
          sum += x.As<float>()[(b * rows + r) * width + c];
        }
      }
      ASSERT_EQ(sums.As<float>()[c],
                before.As<float>()[c] + static_cast<float>(sum));
    }
  }
}

TEST(Pointwise, SumsOfSquaresAreTheSameOnAnyThreadsAndAddUp) {
  Rng rng(5);
  const Tensor x = RandomTensor(DType::kF32, {3, 30011}, rng);
  double plain = 0;
  for (const double value : Values(x.view())) plain += value * value;
  Context one({1, ""}), three({3, ""});
  const double found = SumOfSquares(one, x.view());
  EXPECT_EQ(found, SumOfSquares(three, x.view()));
  EXPECT_NEAR(found, plain, 1e-9 * plain);
  std::vector<double> sum = {0.5};
  AddSumOfSquares(one, x.view(), ViewOf(sum));
  EXPECT_EQ(sum[0], 0.5 + found);
  const std::vector<float> halves(70'000, 0.5f);
  sum[0] = 3;
  AddSumOfSquares(three, ViewOf(halves), ViewOf(sum));
  EXPECT_DOUBLE_EQ(sum[0], 17'503);
}

TEST(Pointwise, WhatIsBeyondIsFoundWhereverItStands) {
  Rng rng(6);
  Context context({2, ""});
  Tensor x = RandomTensor(DType::kF32, {5, 40000}, rng);
  EXPECT_TRUE(AllWithin(context, x.view(), 1e17f));
  EXPECT_EQ(FirstBeyond(context, x.view(), 1e17f), -1);
  for (const float bad : {kNan, -kNan, INFINITY, -INFINITY, 2e17f, -2e17f}) {
    for (const int64_t at : {int64_t{0}, int64_t{70001}, int64_t{199999}}) {
      const float old = std::exchange(x.As<float>()[at], bad);
      EXPECT_FALSE(AllWithin(context, x.view(), 1e17f)) << bad;
      EXPECT_EQ(AllWithin(context, x.view(), kLargest), std::isfinite(bad));
      EXPECT_EQ(FirstBeyond(context, x.view(), 1e17f), at) << bad;
      // Other columns do not care.
      const ConstTensorView others = Columns(x.view(), 2, 30001);
      EXPECT_TRUE(AllWithin(context, others, 1e17f)) << bad;
      x.As<float>()[at] = old;
    }
  }
  x.As<float>()[7] = 1e17f;  // not above
  EXPECT_TRUE(AllWithin(context, x.view(), 1e17f));
}

TEST(Pointwise, AMarkStaysWhereNothingIsBeyond) {
  Context context({1, ""});
  std::vector<int32_t> mark = {0};
  const std::vector<float> fine = {1}, bad = {kNan};
  MarkBeyond(context, ViewOf(bad), kLargest, ViewOf(mark));
  EXPECT_EQ(mark[0], 1);
  MarkBeyond(context, ViewOf(fine), kLargest, ViewOf(mark));
  EXPECT_EQ(mark[0], 1);
}

TEST(Pointwise, TypesThatNoOtherTakesAreTakenByTheReference) {
  Context context({1, ""});
  Rng rng(7);
  Tensor x = RandomTensor(DType::kBF16, {4, 8}, rng), y(DType::kBF16, {4, 8});
  Add(context, x.view(), x.view(), y.view());
  const auto once = Values(x.view()), twice = Values(y.view());
  for (size_t i = 0; i < once.size(); ++i) EXPECT_EQ(twice[i], 2 * once[i]);
  std::vector<float> sums(8);
  AddColumnSums(context, x.view(), ViewOf(sums));
  EXPECT_TRUE(AllWithin(context, x.view(), kLargest));
  Context fast({1, "pointwise:cpu.f32"});
  EXPECT_THROW(Add(fast, x.view(), x.view(), y.view()), Error);
}

TEST(Pointwise, NothingIsAddedOfNothing) {
  Context context({1, ""});
  Tensor none(DType::kF32, {0, 3});
  std::vector<float> sums = {1, 2, 3};
  Add(context, none.view(), none.view(), none.view());
  AddColumnSums(context, none.view(), ViewOf(sums));
  EXPECT_THAT(sums, ElementsAre(1, 2, 3));
  EXPECT_EQ(SumOfSquares(context, none.view()), 0);
  EXPECT_TRUE(AllWithin(context, none.view(), 1));
}

TEST(Pointwise, WhatDoesNotFitIsNamed) {
  Context context({1, ""});
  Tensor x(DType::kF32, {2, 4}), y(DType::kF32, {4, 2}), h(DType::kF16, {2, 4});
  EXPECT_THAT(ErrorOf([&] { Add(context, x.view(), y.view(), x.view()); }),
              HasSubstr("b f32 [2, 4]; found f32 [4, 2]"));
  EXPECT_THAT(ErrorOf([&] { Add(context, h.view(), x.view(), x.view()); }),
              HasSubstr("a f32 [2, 4]; found f16 [2, 4]"));
  EXPECT_THAT(ErrorOf([&] { Scale(context, 2, x.view(), {}); }),
              HasSubstr("found none"));
  EXPECT_THAT(ErrorOf([&] { AddColumnSums(context, x.view(), x.view()); }),
              HasSubstr("the result f32 [4]"));
  EXPECT_THAT(ErrorOf([&] { AddSumOfSquares(context, x.view(), x.view()); }),
              HasSubstr("the result f64 [1]"));
  EXPECT_THAT(ErrorOf([&] { SumOfSquares(context, {}); }),
              HasSubstr("x with an axis; found none"));
}

}  // namespace
}  // namespace headwise::pointwise_test
