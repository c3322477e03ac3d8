#include "headwise/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>

#include "headwise/context.h"
#include "headwise/error.h"
#include "headwise/tensor/half.h"

namespace headwise::tensor_test {
namespace {

TEST(Tensor, IsZeroedDenseAndDescribesItself) {
  Tensor tensor(DType::kF32, {2, 3});
  EXPECT_EQ(tensor.size(), 6);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(tensor.As<float>()[i], 0.0f);
  EXPECT_EQ(ToString(tensor.view()), "f32 [2, 3]");
  EXPECT_EQ(tensor.view().stride[0], 3);
}

TEST(Tensor, ImpossibleSizesAreErrors) {
  EXPECT_THROW(Tensor(DType::kF32, {-1}), Error);
  EXPECT_THROW(Tensor(DType::kF64, {int64_t{1} << 40, int64_t{1} << 40}),
               Error);
  EXPECT_THROW(Tensor(DType::kF64, {int64_t{1} << 58}), Error);
}

TEST(Tensor, WhatWasMovedFromIsEmpty) {
  Tensor from(DType::kBF16, {2, 3});
  const void* data = from.view().data;
  Tensor to(std::move(from));
  EXPECT_EQ(to.view().data, data);
  Tensor third;
  third = std::move(to);
  EXPECT_EQ(third.view().data, data);
  EXPECT_EQ(third.size(), 6);
  // NOLINTNEXTLINE(bugprone-use-after-move): what the class promises of it
  for (const Tensor* moved : {&from, &to}) {
    EXPECT_FALSE(moved->view());
    EXPECT_EQ(moved->size(), 0);
    EXPECT_EQ(moved->bytes(), 0u);
    EXPECT_EQ(moved->rank(), 0);
    EXPECT_EQ(moved->type(), DType::kF32);
  }
}

TEST(Tensor, OfAContextIsOnItsDeviceAndMayOutliveIt) {
  Tensor tensor;
  {
    Context context({.threads = 1, .implementations = ""});
    tensor = Tensor(context, DType::kF32, {4});
    EXPECT_EQ(tensor.device(), context.device());
  }
  for (int i = 0; i < 4; ++i) EXPECT_EQ(tensor.As<float>()[i], 0.0f);
}

TEST(Shape, HoldsSixSizesAndNoMore) {
  EXPECT_EQ(Shape({1, 2, 3, 4, 5, 6}).rank(), 6);
  EXPECT_EQ(ToString(Shape({2, 5})), "[2, 5]");
  try {
    Shape({1, 2, 3, 4, 5, 6, 7});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("at most 6 sizes"),
              std::string::npos);
  }
}

TEST(View, IsReadAsWhatItIsAndNothingElse) {
  Tensor tensor(DType::kBF16, {2});
  EXPECT_NE(tensor.As<uint16_t>(), nullptr);
  EXPECT_NE(tensor.As<std::byte>(), nullptr);
  EXPECT_THROW(tensor.As<float>(), Error);
  EXPECT_THROW(std::as_const(tensor).As<int32_t>(), Error);
  EXPECT_THROW(tensor.view().As<int8_t>(), Error);
  EXPECT_NE(tensor.Raw<float>(), nullptr);
  EXPECT_EQ(ConstTensorView().As<int32_t>(), nullptr);  // not given
}

TEST(View, OfADeviceIsNotReadAsTheHosts) {
  float value = 0;
  TensorView view = View(&value, {1});
  EXPECT_EQ(view.As<float>(), &value);
  view.device = Device::Cuda();
  EXPECT_THROW(view.As<float>(), Error);
  EXPECT_EQ(view.Raw<float>(), &value);
}

TEST(View, OfADeviceSaysWhere) {
  float value = 0;
  ConstTensorView view = View(&value, {1});
  EXPECT_EQ(ToString(view), "f32 [1]");
  view.device = Device::Cuda(2);
  EXPECT_EQ(ToString(view), "f32 [1] on cuda:2");
}

TEST(Half, RoundTripsEveryF16) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = FromF16(static_cast<uint16_t>(bits));
    if (std::isnan(value)) continue;
    EXPECT_EQ(ToF16(value), bits);
  }
}

TEST(Half, RoundsToNearestEven) {
  EXPECT_EQ(FromBf16(ToBf16(1.00390625f)), 1.0f);       // tie, even below
  EXPECT_EQ(FromBf16(ToBf16(1.01171875f)), 1.015625f);  // tie, even above
  EXPECT_EQ(FromF16(ToF16(2049.0f)), 2048.0f);
  EXPECT_EQ(FromF16(ToF16(2051.0f)), 2052.0f);
  EXPECT_TRUE(std::isinf(FromF16(ToF16(65520.0f))));
  EXPECT_TRUE(
      std::isnan(FromBf16(ToBf16(std::numeric_limits<float>::quiet_NaN()))));
}

}  // namespace
}  // namespace headwise::tensor_test
