// What counts as a number that a run may hold.
#include "headwise/nn/finite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "headwise/error.h"
#include "headwise/nn/norm.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/tensor/slice.h"

namespace headwise::finite_test {
namespace {

using testing::HasSubstr;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(Finite, FindsOneBadValueAnywhere) {
  Context context({2, ""});
  for (const int64_t count : {1, 7, 65536, 65537, 200001}) {
    std::vector<float> values(count, -1e16f);
    EXPECT_TRUE(AllWithin(context, ViewOf(values), kMostFinite));
    for (const float bad :
         {kNaN, -kNaN, kInfinity, -kInfinity, 3e38f, -2e17f}) {
      for (const int64_t at : {int64_t{0}, count / 2, count - 1}) {
        values[at] = bad;
        EXPECT_FALSE(AllWithin(context, ViewOf(values), kMostFinite))
            << bad << at;
        values[at] = 0;
      }
    }
  }
}

TEST(Finite, NamesTheWeightAndItsPlace) {
  Tensor good(DType::kF32, {2, 3}), bad(DType::kF32, {2, 3});
  bad.As<float>()[4] = kInfinity;
  const Parameter first{"first", good.view()}, second{"second", bad.view()};
  Context context({1, ""});
  const std::vector<float> values = {1, kNaN};
  try {
    ThrowNotFinite(context, {"layer.3.mlp.output", {&first, &second}},
                   ViewOf(values));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    EXPECT_THAT(error.what(), HasSubstr("[layer.3.mlp.output]"));
    EXPECT_THAT(error.what(),
                HasSubstr("found NaN, by infinity in second [1, 1]"));
  }
}

TEST(Finite, AWeightIsCheckedByItself) {
  Context context({1, ""});
  Tensor values(DType::kF32, {2, 3});
  const Parameter weight{"w", std::as_const(values).view()};
  RequireFinite(context, weight, values.view());
  values.As<float>()[5] = -kInfinity;
  try {
    RequireFinite(context, weight, values.view());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    EXPECT_THAT(error.what(), HasSubstr("-infinity"));
  }
}

TEST(Finite, AnEpsilonThatMakesNoNormIsRefused) {
  const Tensor weight(DType::kF32, {4});
  for (const float epsilon : {kNaN, -1e-5f, kInfinity, 1e30f}) {
    EXPECT_THROW(Norm(NormKind::kRms, epsilon, {"w", weight.view()}, {}), Error)
        << epsilon;
  }
}

}  // namespace
}  // namespace headwise::finite_test
