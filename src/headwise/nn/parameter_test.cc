// Parameters as layers read them.
#include "headwise/nn/parameter.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/nn/linear.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/element.h"
#include "headwise/tensor/encoding.h"
#include "headwise/tensor/half.h"
#include "headwise/tensor/slice.h"

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

// q8_0 of random numbers.
Tensor Blocks(const Shape& shape, uint64_t seed) {
  Rng rng(seed);
  Tensor tensor(DType::kQ8_0, shape);
  std::vector<float> values(static_cast<size_t>(tensor.size()));
  for (float& value : values) value = static_cast<float>(rng.Normal());
  Q8FromFloat(values.data(), tensor.size(), tensor.Raw<std::byte>());
  return tensor;
}

TEST(Parameter, OfBlocksBecomesF32WithItsRowsAndColumns) {
  Context context({1, ""});
  const Tensor matrix = Blocks({5, 96}, 1), vector = Blocks({64}, 2);
  const ConstTensorView whole = matrix.view();
  for (const ConstTensorView& view :
       {whole, Rows(whole, 1, 4), Columns(whole, 32, 96),
        Columns(Rows(whole, 2, 3), 64, 96), vector.view()}) {
    const Tensor found = ToF32(context, {"w", view});
    ASSERT_EQ(found.type(), DType::kF32);
    ASSERT_EQ(found.size(), view.size());
    for (int64_t n = 0; n < view.size(); ++n) {
      ASSERT_EQ(found.As<float>()[n], ReadInBlocks(view, PlaceOf(view, n)));
    }
  }
  const Parameter part = SliceOf({"w", whole}, 1, 32, 64);
  EXPECT_EQ(ToString(part.value), "q8_0 [5, 32]");
  try {
    SliceOf({"layer.3.o_proj", whole}, 1, 16, 48);
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("[layer.3.o_proj]"), std::string::npos) << text;
    EXPECT_NE(text.find("32 elements of q8_0"), std::string::npos) << text;
  }
}

TEST(Parameter, OfBlocksIsRefusedByProductsByItsName) {
  const Tensor matrix = Blocks({4, 32}, 3);
  try {
    Linear({{.weight = {"layer.3.q_proj", matrix.view()}, .bias = {}}},
           WeightLayout::kOutIn);
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(text.find("[layer.3.q_proj]"), std::string::npos) << text;
    EXPECT_NE(text.find("q8_0 [4, 32]"), std::string::npos) << text;
  }
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

TEST(Values, OfBlocksAreF32AsStoredOrNot) {
  Context context({1, ""});
  const Tensor matrix = Blocks({4, 32}, 4);
  const Values values({"w", matrix.view()}, Values::Type::kStored);
  const ConstTensorView view = values.view(context);
  EXPECT_EQ(ToString(view), "f32 [4, 32]");
  EXPECT_EQ(Read(view, 3, 7), Read(std::as_const(matrix).view(), 3, 7));
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
