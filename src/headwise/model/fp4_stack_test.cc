// Stacks in mxfp4 against their definition.
#include "headwise/model/fp4_stack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/ops/copy/copy.h"

namespace headwise::fp4_stack_test {
namespace {

class Bytes : public WeightSource {
 public:
  Bytes(const Shape& pairs, const Shape& scales, uint64_t seed) {
    Rng rng(seed);
    for (const auto& [name, shape] :
         {std::pair{"x_blocks", pairs}, std::pair{"x_scales", scales}}) {
      Tensor& tensor = tensors_[name] = Tensor(DType::kU8, shape);
      const bool exponents = shape == scales;
      for (int64_t i = 0; i < tensor.size(); ++i) {
        tensor.As<uint8_t>()[i] = static_cast<uint8_t>(
            exponents ? rng.Between(110, 140) : rng.Between(0, 255));
      }
    }
  }
  std::string Describe() const override { return "test"; }
  ConstTensorView Find(const std::string& name) const override {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) return {};
    return found->second.view();
  }
  std::vector<std::string> Names() const override { return {}; }
  const uint8_t* data(const std::string& name) const {
    return tensors_.at(name).As<uint8_t>();
  }

 private:
  std::map<std::string, Tensor> tensors_;
};

constexpr uint64_t kSeed = 41;

TEST(Fp4Stack, HoldsTwoNumbersAByteAndAScaleABlock) {
  const Bytes bytes({2, 3, 2, 16}, {2, 3, 2}, kSeed);
  ASSERT_TRUE(HasFp4Stack(bytes, "x"));
  EXPECT_FALSE(HasFp4Stack(bytes, "y"));
  std::shared_ptr<const Tensor> made;
  const Parameter stack = UnpackFp4Stack(bytes, "x", {2, 3, 64}, made);
  Context context({1, ""});
  const auto values = ToVector<float>(context, stack.value);
  constexpr double kMagnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  ASSERT_EQ(values.size(), 2 * 3 * 64);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint8_t pair = bytes.data("x_blocks")[i / 2];
    const int bits = i % 2 == 0 ? pair & 15 : pair >> 4;
    const int exponent = bytes.data("x_scales")[i / 32];
    const double magnitude = std::ldexp(kMagnitudes[bits & 7], exponent - 127);
    EXPECT_EQ(values[i], bits < 8 ? magnitude : -magnitude)
        << i << ", seed " << kSeed;
  }
}

TEST(Fp4Stack, RefusesOtherShapes) {
  std::shared_ptr<const Tensor> made;
  const auto refusal = [&](const Bytes& bytes, const Shape& shape) {
    try {
      UnpackFp4Stack(bytes, "x", shape, made);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const Bytes bytes({2, 3, 2, 16}, {2, 3, 2}, kSeed);
  EXPECT_THAT(refusal(bytes, {2, 3, 32}), testing::HasSubstr("x_blocks"));
  EXPECT_THAT(refusal(bytes, {2, 3, 48}), testing::HasSubstr("32 numbers"));
  EXPECT_THAT(refusal(Bytes({2, 3, 2, 16}, {2, 3, 1}, kSeed), {2, 3, 64}),
              testing::HasSubstr("x_scales"));
}

}  // namespace
}  // namespace headwise::fp4_stack_test
