#include "headwise/ops/adamw/adamw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace headwise {
namespace {

struct State {
  explicit State(int count) : value(count), first(count), second(count) {
    for (int i = 0; i < count; ++i) value[i] = std::sin(0.1f * i);
  }
  void Step(Context& context, AdamWProblem problem, float tilt) {
    std::vector<float> gradient(value.size());
    for (size_t i = 0; i < gradient.size(); ++i) {
      gradient[i] = std::cos(0.3f * static_cast<float>(i) + tilt);
    }
    AdamW(context, problem,
          {static_cast<int64_t>(value.size()), value.data(), gradient.data(),
           first.data(), second.data()});
  }
  std::vector<float> value, first, second;
};

TEST(AdamW, FollowsTheFormula) {
  Context context({1, ""});
  AdamWProblem problem;
  problem.rate = 0.01f;
  problem.decay = 0.1f;
  problem.gradient_scale = 0.5f;
  State state(3);
  double w = state.value[1], m = 0, v = 0;
  for (int t = 1; t <= 5; ++t) {
    const float tilt = static_cast<float>(t);
    problem.step = t;
    state.Step(context, problem, tilt);
    const double g = 0.5 * std::cos(0.3 + t);
    m = 0.9 * m + 0.1 * g;
    v = 0.95 * v + 0.05 * g * g;
    const double mh = m / (1 - std::pow(0.9, t));
    const double vh = v / (1 - std::pow(0.95, t));
    w -= 0.01 * (mh / (std::sqrt(vh) + 1e-8) + 0.1 * w);
    EXPECT_NEAR(state.value[1], w, 1e-6) << t;
  }
}

// The first step moves every value by the rate, whatever the gradient's size.
TEST(AdamW, FirstStepHasTheSizeOfTheRate) {
  Context context({1, ""});
  State state(50);
  const std::vector<float> before = state.value;
  AdamWProblem problem;
  problem.rate = 0.01f;
  problem.gradient_scale = 1e-3f;
  state.Step(context, problem, 0.2f);
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_NEAR(std::abs(state.value[i] - before[i]), 0.01, 2e-4);
  }
}

TEST(AdamW, ThreadsDoNotChangeTheResult) {
  Context one({1, ""}), three({3, ""});
  State a(100'001), b(100'001);
  for (int t = 1; t <= 3; ++t) {
    AdamWProblem problem;
    problem.step = t;
    a.Step(one, problem, 0.1f);
    b.Step(three, problem, 0.1f);
  }
  EXPECT_EQ(a.value, b.value);
  EXPECT_EQ(SumOfSquares(one, a.value), SumOfSquares(three, b.value));
}

TEST(AdamW, SumsSquares) {
  Context context({2, ""});
  const std::vector<float> x(70'000, 0.5f);
  EXPECT_DOUBLE_EQ(SumOfSquares(context, x), 17'500);
}

}  // namespace
}  // namespace headwise
