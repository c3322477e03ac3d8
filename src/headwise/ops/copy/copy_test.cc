#include "headwise/ops/copy/copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/ops/check_view.h"
#include "headwise/ops/copy/implementation.h"
#include "headwise/ops/test_device.h"
#include "headwise/ops/test_values.h"
#include "headwise/tensor/element.h"
#include "headwise/tensor/half.h"

namespace headwise::copy_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr DType kFloats[] = {DType::kF32, DType::kF64, DType::kBF16,
                             DType::kF16};
constexpr DType kIntegers[] = {DType::kI32, DType::kI64, DType::kI16,
                               DType::kU8};

void FillRandom(const TensorView& flat, Rng& rng) {
  for (int64_t i = 0; i < flat.shape[0]; ++i) {
    Write(flat, std::round(100 * std::abs(rng.Normal())) / 8, i);
  }
}

// Memory of random numbers, and a view of some of it whose strides leave gaps,
// in any order of axes, at an address that may not be aligned.
struct Place {
  Tensor memory;
  TensorView view;

  Place(DType type, const Shape& shape, bool unaligned, Rng& rng) {
    std::vector<int> order(shape.rank());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    for (size_t i = order.size(); i > 1; --i) {
      if (rng.Below(3) == 0) std::swap(order[i - 1], order[rng.Below(i)]);
    }
    view = TensorView(nullptr, type, shape);
    int64_t step = rng.Below(3) == 0 ? 2 : 1;
    for (size_t i = order.size(); i-- > 0;) {
      view.stride[order[i]] = step;
      step *= shape[order[i]];
      if (rng.Below(3) == 0) step += 3;
    }
    memory = Tensor(type, {step + 1});
    FillRandom(memory.view(), rng);
    char* data = static_cast<char*>(memory.view().data);
    if (unaligned)
      std::memmove(data + 1, data, memory.bytes() - ElementSize(type));
    view.data = data + (unaligned ? 1 : 0);
  }
  std::string Bytes() const {
    return {static_cast<const char*>(memory.view().data), memory.bytes()};
  }
};

CopyCall RandomCall(CopyKind kind, Rng& rng, Shape* from_shape, Shape* to_shape,
                    std::vector<int32_t>& index) {
  const auto size = [&](uint64_t most) {
    return 1 + static_cast<int64_t>(rng.Below(most));
  };
  const int64_t large = rng.Below(6) == 0 ? 600 : 9;
  const int64_t rows = size(20), a = size(3), b = size(4), c = size(large);
  const int64_t all = rows + size(5);
  *from_shape = *to_shape = Shape{rows, a, b, c};
  if (kind == CopyKind::kGather) {
    *from_shape = {all, a, b, c};
    for (int64_t r = 0; r < rows; ++r) {
      index.push_back(static_cast<int32_t>(rng.Below(all)));
    }
  } else if (kind == CopyKind::kScatter) {
    *to_shape = {all, a, b, c};
    for (int64_t r = 0; r < rows; ++r) {
      index.push_back(static_cast<int32_t>(r + all - rows));
    }
    std::swap(index.front(), index.back());
  } else if (kind == CopyKind::kAppend) {
    *to_shape = {rows, a + 6, b, c};
    for (int64_t r = 0; r < rows; ++r) {
      index.push_back(static_cast<int32_t>(rng.Below(7)));
    }
  }
  return {.kind = kind, .index = ViewOf(std::as_const(index))};
}

void RunCall(Context& context, const CopyCall& call) {
  switch (call.kind) {
    case CopyKind::kCopy:
      return Copy(context, call.from, call.to);
    case CopyKind::kFill:
      return Fill(context, call.value, call.to);
    case CopyKind::kGather:
      return GatherRows(context, call.from, call.index, call.to);
    case CopyKind::kScatter:
      return ScatterRows(context, call.from, call.index, call.to);
    case CopyKind::kAppend:
      return AppendRows(context, call.from, call.index, call.to);
  }
}

TEST(Copy, EveryImplementationAgreesWithTheReferenceOverThreads) {
  const uint64_t seed = 20263;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Rng rng(seed);
  int served = 0;
  for (int round = 0; round < 300; ++round) {
    const auto kind = static_cast<CopyKind>(round % 5);
    DType from = kFloats[rng.Below(4)], to = kFloats[rng.Below(4)];
    if (rng.Below(4) == 0) from = kIntegers[rng.Below(4)];
    if (rng.Below(3) == 0) to = from;
    Shape from_shape, to_shape;
    std::vector<int32_t> index;
    CopyCall call = RandomCall(kind, rng, &from_shape, &to_shape, index);
    const Place source(from, from_shape, rng.Below(4) == 0, rng);
    Place truth(to, to_shape, false, rng);
    const std::string before = truth.Bytes();
    if (kind != CopyKind::kFill) call.from = source.view;
    call.to = truth.view;
    call.value = 2.5;
    Context reference({1, "copy:reference"});
    RunCall(reference, call);
    const std::string after = truth.Bytes();
    for (const auto& entry : CopyImplementations().entries) {
      const auto context = ContextFor("copy", entry.name);
      if (!context) continue;
      SCOPED_TRACE(std::string(entry.name) + " kind " +
                   std::to_string(static_cast<int>(kind)) + " " +
                   ToString(source.view) + " to " + ToString(truth.view));
      std::memcpy(truth.memory.view().data, before.data(), before.size());
      Mirror at(*context);
      at(truth.memory.view());  // whole, so that gaps are seen to stay
      CopyCall there = call;
      there.from = at(call.from);
      there.index = at(call.index);
      there.to = at(call.to);
      if (!entry.why_not(there).empty()) continue;
      RunCall(*context, there);
      at.Back();
      ASSERT_EQ(truth.Bytes(), after);
      ++served;
    }
  }
  EXPECT_GT(served, 400);
}

// From the host to a device and back, whatever lies how and as what: together
// two entries serve every pair.
TEST(Copy, WhatCrossesToADeviceAndBackIsWhatTheHostWouldCopy) {
  std::unique_ptr<Context> context = ContextFor("", "cuda");
  if (!context) GTEST_SKIP() << "no GPU here";
  Rng rng(20264);
  Context host({1, ""});
  for (int round = 0; round < 200; ++round) {
    const DType from = kFloats[rng.Below(4)], to = kFloats[rng.Below(4)];
    const DType middle = rng.Below(2) ? from : to;
    const Shape shape = {1 + static_cast<int64_t>(rng.Below(5)), 3,
                         1 + static_cast<int64_t>(rng.Below(70))};
    const Place source(from, shape, rng.Below(4) == 0, rng);
    Place truth(to, shape, false, rng), there(middle, shape, false, rng);
    const std::string before = truth.Bytes();
    Tensor cast(middle, shape);
    Copy(host, source.view, cast.view());
    Copy(host, cast.view(), truth.view);
    const std::string after = truth.Bytes();
    std::memcpy(truth.memory.view().data, before.data(), before.size());
    SCOPED_TRACE(ToString(source.view) + " by " + Name(middle) + " to " +
                 ToString(truth.view));
    Mirror at(*context);
    Copy(*context, source.view, at(there.view));
    Copy(*context, at(ConstTensorView(there.view)), truth.view);
    context->Synchronize();
    ASSERT_EQ(truth.Bytes(), after);
  }
}

// On the host, and on a device as one piece of work.
TEST(Copy, TwoAppendsAreOneAndTheOther) {
  for (const char* entry : {"cpu.move", "cuda"}) {
    const auto context = ContextFor("copy", entry);
    if (!context) continue;
    const uint64_t seed = 4711;
    SCOPED_TRACE(std::string(entry) + ", seed " + std::to_string(seed));
    Rng rng(seed);
    for (int round = 0; round < 60; ++round) {
      const DType type = kFloats[rng.Below(4)];
      Shape from_shape, to_shape;
      std::vector<int32_t> held;
      RandomCall(CopyKind::kAppend, rng, &from_shape, &to_shape, held);
      const auto with_columns = [](Shape shape, int64_t columns) {
        return Shape{shape[0], shape[1], shape[2], columns};
      };
      const int64_t columns = rng.Between(1, 40);
      const Place k(type, from_shape, false, rng);
      const Place v(type, with_columns(from_shape, columns), false, rng);
      Place k_truth(type, to_shape, false, rng);
      Place v_truth(type, with_columns(to_shape, columns), false, rng);
      const std::string k_before = k_truth.Bytes(), v_before = v_truth.Bytes();
      Context reference({1, "copy:reference"});
      const ConstTensorView index = ViewOf(std::as_const(held));
      AppendRows(reference, k.view, index, k_truth.view);
      AppendRows(reference, v.view, index, v_truth.view);
      const std::string k_after = k_truth.Bytes(), v_after = v_truth.Bytes();
      std::memcpy(k_truth.memory.view().data, k_before.data(), k_before.size());
      std::memcpy(v_truth.memory.view().data, v_before.data(), v_before.size());
      Mirror at(*context);
      AppendRows(*context,
                 {at(ConstTensorView(k.view)), at(TensorView(k_truth.view))},
                 {at(ConstTensorView(v.view)), at(TensorView(v_truth.view))},
                 at(index));
      at.Back();
      ASSERT_EQ(k_truth.Bytes(), k_after) << round;
      ASSERT_EQ(v_truth.Bytes(), v_after) << round;
    }
  }
}

TEST(Copy, ADeviceLeavesOutRowsBeyondACachesCapacity) {
  const auto context = ContextFor("copy", "cuda");
  if (!context) GTEST_SKIP() << "no GPU here";
  const std::vector<float> fresh = {1, 2, 3, 4};
  const std::vector<int32_t> held = {2, 7};
  Tensor cache(DType::kF32, {2, 3, 1});
  Mirror at(*context);
  AppendRows(*context, at(Reshaped(ViewOf(fresh), {2, 2, 1})), at(ViewOf(held)),
             at(cache.view()));
  at.Back();
  Context host({1, ""});
  EXPECT_THAT(ToVector<float>(host, cache.view()),
              ElementsAre(0, 0, 1, 0, 0, 0));
}

TEST(Copy, TheReferenceWritesTheNumbersItReads) {
  Rng rng(9);
  Context context({1, "copy:reference"});
  for (const DType type : kFloats) {
    const Place from(DType::kF32, {3, 4, 5}, false, rng);
    const Place to(type, {3, 4, 5}, false, rng);
    Copy(context, from.view, to.view);
    for (int i = 0; i < 3; ++i) {
      for (int j = 0; j < 4; ++j) {
        for (int k = 0; k < 5; ++k) {
          // Multiples of 1/8 below 64: every type has them, but for bf16.
          const double x = Read(from.view, i, j, k);
          EXPECT_NEAR(Read(to.view, i, j, k), x, std::abs(x) / 256);
        }
      }
    }
  }
}

TEST(Copy, CastsRoundToNearestEvenAndIntegersStayWhole) {
  Context context({1, ""});
  const std::vector<float> wide = {1.00390625f, 1.01171875f, -0.0f,
                                   std::numeric_limits<float>::infinity()};
  Tensor narrow(DType::kBF16, {4});
  Copy(context, ViewOf(wide), narrow.view());
  EXPECT_THAT(ToVector<float>(context, narrow.view()),
              ElementsAre(1.0f, 1.015625f, 0.0f,
                          std::numeric_limits<float>::infinity()));
  EXPECT_TRUE(std::signbit(ToVector<double>(context, narrow.view())[2]));
  const std::vector<int64_t> large = {(int64_t{1} << 62) + 1, -7};
  EXPECT_EQ(ToVector<int64_t>(context, ViewOf(large)), large);
  const std::vector<int64_t> small = {-7, 1 << 30};
  EXPECT_THAT(ToVector<int32_t>(context, ViewOf(small)),
              ElementsAre(-7, 1 << 30));
}

TEST(Copy, WhatAFileHoldsUnalignedIsRead) {
  Context context({1, ""});
  char file[64] = {};
  const uint16_t halves[] = {ToF16(1.5f), ToF16(-2)};
  std::memcpy(file + 7, halves, sizeof(halves));
  const ConstTensorView view(file + 7, DType::kF16, {2});
  EXPECT_THAT(ToVector<float>(context, view), ElementsAre(1.5f, -2.0f));
  const int64_t id = 5;
  std::memcpy(file + 33, &id, sizeof(id));
  EXPECT_THAT(
      ToVector<int32_t>(context, ConstTensorView(file + 33, DType::kI64, {1})),
      ElementsAre(5));
}

TEST(Copy, BroadcastsAreReadAsOftenAsTheyStand) {
  Context context({1, ""});
  const std::vector<float> row = {1, 2};
  EXPECT_THAT(ToVector<float>(context, Broadcast(ViewOf(row), {3, 2})),
              ElementsAre(1, 2, 1, 2, 1, 2));
}

TEST(Copy, FillWritesWhatTheViewShowsAndNothingElse) {
  Context context({2, ""});
  Tensor t(DType::kF16, {3, 4});
  Fill(context, 1.5, Columns(t.view(), 1, 3));
  EXPECT_THAT(
      ToVector<float>(context, t.view()),
      ElementsAre(0, 1.5f, 1.5f, 0, 0, 1.5f, 1.5f, 0, 0, 1.5f, 1.5f, 0));
  Fill(context, -1, At(t.view(), 0, 1));
  EXPECT_THAT(ToVector<float>(context, At(t.view(), 1, 3)),
              ElementsAre(0, -1, 0));
}

TEST(Copy, RowsGoBehindThoseThatACacheHolds) {
  Context context({1, ""});
  // Two sequences of one new row each, one and two rows held.
  const std::vector<float> fresh = {1, 2, 3, 4};
  const std::vector<int32_t> held = {1, 2};
  Tensor cache(DType::kF32, {2, 3, 2, 1});
  AppendRows(context, Reshaped(ViewOf(fresh), {2, 1, 2, 1}), ViewOf(held),
             cache.view());
  EXPECT_THAT(ToVector<float>(context, cache.view()),
              ElementsAre(0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 3, 4));
}

TEST(Copy, NothingIsCopiedOfNothing) {
  Context context({1, ""});
  Tensor none(DType::kF32, {0, 4}), some(DType::kF32, {2, 4});
  Copy(context, none.view(), none.view());
  Fill(context, 1, none.view());
  GatherRows(context, some.view(), {nullptr, DType::kI32, {0}}, none.view());
  EXPECT_EQ(ToHost(context, none.view()).size(), 0);
  EXPECT_TRUE(ToVector<float>(context, none.view()).empty());
}

TEST(Copy, CopiesOnTheContextsDeviceAreDense) {
  Context context({1, ""});
  const std::vector<float> values = {0, 1, 2, 3, 4, 5};
  const ConstTensorView right = Columns(Reshaped(ViewOf(values), {2, 3}), 1, 3);
  const Tensor device = ToDevice(context, right);
  EXPECT_EQ(device.device(), context.device());
  EXPECT_TRUE(IsDense(device.view()));
  const Temp copy = CopyOf(context, right);
  EXPECT_THAT(ToVector<float>(context, copy.view()), ElementsAre(1, 2, 4, 5));
}

TEST(Copy, WhatLiesOnTheDeviceIsReadThere) {
  Context context({1, ""});
  const std::vector<float> values = {1, 2};
  Temp copy;
  EXPECT_EQ(OnDevice(context, ViewOf(values), copy).data, values.data());
  EXPECT_FALSE(copy);
  EXPECT_FALSE(OnDevice(context, {}, copy));
  Tensor host;
  EXPECT_EQ(OnHost(context, ViewOf(values), host).data, values.data());
  EXPECT_EQ(host.size(), 0);
  EXPECT_FALSE(OnHost(context, {}, host));
}

TEST(Copy, WhatDoesNotFitIsNamed) {
  Context context({1, ""});
  Tensor x(DType::kF32, {2, 4}), y(DType::kF32, {4, 2}), i(DType::kI32, {2, 4});
  EXPECT_THAT(ErrorOf([&] { Copy(context, x.view(), y.view()); }),
              HasSubstr("to [2, 4]; found f32 [4, 2]"));
  EXPECT_THAT(ErrorOf([&] { Copy(context, x.view(), i.view()); }),
              HasSubstr("a type that f32 becomes; found i32"));
  EXPECT_THAT(ErrorOf([&] { Copy(context, {}, y.view()); }),
              HasSubstr("found none"));
  ConstTensorView elsewhere = x.view();
  elsewhere.device = Device::Cuda(1);
  EXPECT_THAT(ErrorOf([&] { Copy(context, elsewhere, x.view()); }),
              HasSubstr("from on cpu or cpu"));
  const std::vector<int32_t> rows = {0, 4, 1, 1};
  EXPECT_THAT(
      ErrorOf([&] { GatherRows(context, y.view(), ViewOf(rows), y.view()); }),
      HasSubstr("rows in [0, 4); found 4 at 1"));
  EXPECT_THAT(
      ErrorOf([&] { ScatterRows(context, x.view(), ViewOf(rows), x.view()); }),
      HasSubstr("rows i32 [2]"));
  const std::vector<int32_t> held = {3, 4};
  Tensor fresh(DType::kF32, {2, 1, 8}), cache(DType::kF32, {2, 4, 8});
  EXPECT_THAT(ErrorOf([&] {
                AppendRows(context, fresh.view(), ViewOf(held), cache.view());
              }),
              HasSubstr("held in [0, 4); found 4 at 1"));
}

TEST(Copy, DevicesAreServedByTheirOwnCopiesWhereElementsLieTogether) {
  // Nothing is run: there may be no such device here.
  TensorView there(reinterpret_cast<void*>(64), DType::kF32, {4, 6},
                   Device::Cuda());
  Tensor here(DType::kF32, {4, 6});
  const auto why_not = [&](const CopyCall& call) {
    return kCopyDevice.why_not(call);
  };
  EXPECT_EQ(why_not({.from = here.view(), .to = there}), "");
  EXPECT_EQ(why_not({.from = Columns(ConstTensorView(there), 2, 4),
                     .to = Columns(here.view(), 2, 4)}),
            "");
  EXPECT_NE(
      why_not({.from = Transposed(there, 0, 1), .to = Transposed(there, 0, 1)}),
      "");
  EXPECT_EQ(why_not({.kind = CopyKind::kFill, .to = there}), "");
  EXPECT_NE(why_not({.kind = CopyKind::kFill, .to = there, .value = 1}), "");
  Tensor half(DType::kF16, {4, 6});
  EXPECT_NE(why_not({.from = half.view(), .to = there}), "");
  for (const auto* entry : {&kCopyCpuMove, &kCopyCpuCast, &kCopyReference}) {
    EXPECT_NE(entry->why_not({.from = here.view(), .to = there}), "");
  }
}

}  // namespace
}  // namespace headwise::copy_test
