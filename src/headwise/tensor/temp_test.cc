#include "headwise/tensor/temp.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>

#include "headwise/error.h"

namespace headwise::temp_test {
namespace {

TEST(Temp, IsDenseScratchOfTheContext) {
  Context context({.threads = 1, .implementations = ""});
  context.ResetPeakScratch();
  Temp temp(context, DType::kBF16, {3, 5});
  EXPECT_TRUE(temp);
  const TensorView view = temp.view();
  EXPECT_EQ(ToString(view), "bf16 [3, 5]");
  EXPECT_EQ(view.device, context.device());
  EXPECT_EQ(view.stride[0], 5);
  EXPECT_EQ(view.stride[1], 1);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(view.data) % 64, 0u);
  EXPECT_GE(context.PeakScratchBytes(), 30u);
}

TEST(Temp, ThatIsGivenBackIsTakenAgain) {
  Context context({.threads = 1, .implementations = ""});
  const void* first = nullptr;
  {
    const Temp temp(context, DType::kF32, {1000});
    first = temp.view().data;
  }
  const Temp again(context, DType::kF32, {1000});
  EXPECT_EQ(again.view().data, first);
  const Temp beside(context, DType::kF32, {1000});
  EXPECT_NE(beside.view().data, first);
}

TEST(Temp, MovesWithItsMemory) {
  Context context({.threads = 1, .implementations = ""});
  Temp none;
  EXPECT_FALSE(none);
  Temp temp(context, DType::kF32, {8});
  const void* data = temp.view().data;
  none = std::move(temp);
  EXPECT_EQ(none.view().data, data);
}

TEST(Temp, OfImpossibleSizesIsAnError) {
  Context context({.threads = 1, .implementations = ""});
  EXPECT_THROW(Temp(context, DType::kF32, {-1}), Error);
  EXPECT_THROW(Temp(context, DType::kF32, {int64_t{1} << 40, int64_t{1} << 40}),
               Error);
}

}  // namespace
}  // namespace headwise::temp_test
