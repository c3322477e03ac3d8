#include "headwise/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "headwise/error.h"
#include "headwise/tensor/half.h"

namespace headwise {
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
}  // namespace headwise
