// Parameters as layers read them.
#include "headwise/nn/parameter.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "headwise/error.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/half.h"

namespace headwise::parameter_test {
namespace {

// bf16 numbers at an odd address, as files hold them.
class Unaligned {
 public:
  explicit Unaligned(const std::vector<float>& values)
      : bytes_(2 * values.size() + 1) {
    for (size_t i = 0; i < values.size(); ++i) {
      const uint16_t half = ToBf16(values[i]);
      std::memcpy(bytes_.data() + 1 + 2 * i, &half, 2);
    }
  }
  Parameter parameter(const Shape& shape) const {
    return {"w", ConstTensorView(bytes_.data() + 1, DType::kBF16, shape)};
  }

 private:
  std::vector<char> bytes_;
};

TEST(Parameter, BecomesF32WhereverItLies) {
  Context context({1, ""});
  const Unaligned held({1, 2, 3, 4, 5, 6});
  Parameter parameter = held.parameter({2, 3});
  const Tensor all = ToF32(context, parameter);
  EXPECT_EQ(all.type(), DType::kF32);
  EXPECT_EQ(ToVector<float>(context, all.view()),
            (std::vector<float>{1, 2, 3, 4, 5, 6}));
  parameter.value = Columns(parameter.value, 1, 3);
  EXPECT_EQ(ToVector<float>(context, ToF32(context, parameter).view()),
            (std::vector<float>{2, 3, 5, 6}));
}

TEST(Parameter, OfOtherTypesAndShapesIsRefused) {
  Context context({1, ""});
  const Tensor counts(DType::kI64, {3}), cube(DType::kF32, {1, 2, 3});
  for (const Tensor* tensor : {&counts, &cube}) {
    const Parameter parameter{"w", tensor->view()};
    EXPECT_THROW(ToF32(context, parameter), Error);
    EXPECT_THROW(Values{parameter}, Error);
  }
}

TEST(Values, AreMadeOnce) {
  Context context({1, ""});
  const Unaligned held({1, 2});
  const Values values(held.parameter({2})), same = values;
  const ConstTensorView view = values.view(context);
  EXPECT_EQ(view.type, DType::kF32);
  EXPECT_EQ(same.view(context).data, view.data);
  EXPECT_EQ(ToVector<float>(context, view), (std::vector<float>{1, 2}));
  EXPECT_EQ(Values().view(context).data, nullptr);
  EXPECT_EQ(Values(Parameter()).view(context).data, nullptr);
}

TEST(Values, OfTrainableParametersAreTheParameter) {
  Context context({1, ""});
  Tensor value(DType::kF32, {2}), gradient(DType::kF32, {2});
  const Values values(
      Parameter{"w", std::as_const(value).view(), gradient.view()});
  value.As<float>()[0] = 1;
  EXPECT_EQ(values.view(context).data, value.view().data);
}

TEST(Values, AsStoredAreReadWhereTheyLie) {
  Context context({1, ""});
  const Unaligned held({1, 2, 3, 4});
  const Parameter parameter = held.parameter({2, 2});
  const Values values(parameter, Values::Type::kStored);
  EXPECT_EQ(values.view(context).data, parameter.value.data);
  EXPECT_EQ(values.view(context).type, DType::kBF16);
}

TEST(Values, ThatChangeAreReadWhereTheyLie) {
  Context context({1, ""});
  Tensor value(DType::kF32, {2});
  Parameter parameter{"w", std::as_const(value).view()};
  parameter.varies = true;
  EXPECT_FALSE(parameter.fixed());
  EXPECT_EQ(Values(parameter).view(context).data, value.view().data);
}

}  // namespace
}  // namespace headwise::parameter_test
