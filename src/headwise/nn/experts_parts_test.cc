// What experts are made of: entries of tensors that hold all, and parts that do
// not fit each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/nn/experts.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"

namespace headwise::experts_parts_test {
namespace {

struct Value {
  Tensor value, gradient;
};

TEST(ExpertsPartsTest, EntriesOfStacksAreExperts) {
  constexpr int64_t kExperts = 3, kWidth = 5, kHidden = 4;
  Context context({2, ""});
  Rng rng(7);
  std::list<Value> values;
  const auto make = [&](const Shape& shape) {
    Value& made = values.emplace_back();
    made.value = Tensor(DType::kF32, shape);
    made.gradient = Tensor(DType::kF32, shape);
    for (int64_t i = 0; i < made.value.size(); ++i) {
      made.value.As<float>()[i] = static_cast<float>(rng.Normal());
    }
    return Parameter{"w", std::as_const(made.value).view(),
                     made.gradient.view()};
  };
  const ExpertStacks stacks = {.layout = WeightLayout::kInOut,
                               .in = make({kExperts, kWidth, 2 * kHidden}),
                               .in_bias = make({kExperts, 2 * kHidden}),
                               .down = make({kExperts, kHidden, kWidth})};
  const std::vector<Mlp> experts = ExpertsOf(stacks);
  ASSERT_EQ(experts.size(), 3u);
  const Parameter x = make({6, kWidth});
  for (int64_t e = 0; e < kExperts; ++e) {
    const Mlp& mlp = experts[e];
    ASSERT_EQ(mlp.in().parts().size(), 2u);
    Tensor y(DType::kF32, {6, kWidth}), gates(DType::kF32, {6, 2 * kHidden});
    MlpSaved saved;
    mlp.ForwardSaving(context, x.value, y.view(), Store::kOverwrite, saved);
    Linear({{EntryOf(stacks.in, e), EntryOf(stacks.in_bias, e)}},
           WeightLayout::kInOut)
        .Forward(context, x.value, gates.view());
    EXPECT_THAT(ToVector<float>(context, saved.in.view()),
                testing::Pointwise(testing::FloatNear(1e-5f),
                                   ToVector<float>(context, gates.view())));
    Tensor dx(DType::kF32, {6, kWidth});
    mlp.Backward(context, x.value, saved, x.value, dx.view());
    for (int64_t other = 0; other < kExperts; ++other) {
      double sum = 0;
      for (const float g :
           ToVector<float>(context, At(stacks.down.gradient, 0, other))) {
        sum += std::abs(g);
      }
      EXPECT_EQ(sum > 0, other <= e);
    }
  }
}

TEST(ExpertsPartsTest, RefusesPartsThatDoNotFit) {
  Tensor weight(DType::kF32, {64});
  const auto linear = [&](int64_t in, int64_t out) {
    return Linear({{{"w", {weight.view().data, DType::kF32, {out, in}}}, {}}},
                  WeightLayout::kOutIn);
  };
  const auto mlp = [&](int64_t width) {
    return Mlp(Activation::kSilu, linear(width, 3), linear(width, 3),
               linear(3, width));
  };
  const auto parts = [&] {
    return ExpertsParts{.name = "block",
                        .router = linear(4, 2),
                        .experts = {mlp(4), mlp(4)},
                        .shared = mlp(4),
                        .shared_gate = linear(4, 1)};
  };
  const auto refused = [&](const auto& change) {
    ExpertsParts changed = parts();
    change(changed);
    try {
      const Experts layer(std::move(changed));
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(refused([](ExpertsParts&) {}), "");
  EXPECT_THAT(refused([&](ExpertsParts& p) { p.router = linear(4, 3); }),
              testing::HasSubstr("a router 4 → 2; found 4 → 3"));
  EXPECT_THAT(refused([&](ExpertsParts& p) { p.experts[1] = mlp(5); }),
              testing::HasSubstr("an expert 4 → 4; found 5 → 5"));
  EXPECT_THAT(refused([](ExpertsParts& p) { p.experts.clear(); }),
              testing::HasSubstr("an expert at least"));
  EXPECT_THAT(refused([](ExpertsParts& p) { p.shared = {}; }),
              testing::HasSubstr("behind its gate"));
  EXPECT_THAT(refused([&](ExpertsParts& p) {
                p.correction = {"c", {weight.view().data, DType::kF32, {3}}};
              }),
              testing::HasSubstr("correction [2]"));
}

}  // namespace
}  // namespace headwise::experts_parts_test
