#include "headwise/ops/rope/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/error.h"

namespace headwise {
namespace {

TEST(Rope, TurnsPairsByPositionTimesFrequency) {
  const auto frequencies = RopeFrequencies({.head_dim = 4, .base = 100});
  EXPECT_FLOAT_EQ(frequencies[0], 1.0f);
  EXPECT_FLOAT_EQ(frequencies[1], 0.1f);
  std::vector<float> x = {1, 1, 0, 0};
  const int32_t position = 3;
  Context context({1, ""});
  Rope(context, frequencies, &position, View(x.data(), {1, 1, 4}),
       RopeDirection::kForward);
  EXPECT_NEAR(x[0], std::cos(3.0), 1e-6);
  EXPECT_NEAR(x[2], std::sin(3.0), 1e-6);
  EXPECT_NEAR(x[1], std::cos(0.3), 1e-6);
  EXPECT_NEAR(x[3], std::sin(0.3), 1e-6);
}

TEST(Rope, BackwardUndoesForward) {
  Rng rng(2);
  const int64_t tokens = 40, heads = 3, dim = 8;
  std::vector<float> x(tokens * heads * dim);
  for (float& v : x) v = static_cast<float>(rng.Normal());
  const std::vector<float> before = x;
  std::vector<int32_t> positions(tokens);
  for (int64_t t = 0; t < tokens; ++t) positions[t] = static_cast<int>(5 * t);
  const auto frequencies = RopeFrequencies({.head_dim = dim});
  Context context({2, ""});
  const TensorView view = View(x.data(), {tokens, heads, dim});
  Rope(context, frequencies, positions.data(), view, RopeDirection::kForward);
  EXPECT_GT(std::abs(x[24] - before[24]), 1e-3);
  Rope(context, frequencies, positions.data(), view, RopeDirection::kBackward);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], before[i], 1e-5);
}

TEST(Rope, ScalingStretchesLowFrequenciesOnly) {
  const RopeConfig plain{.head_dim = 64, .base = 500000};
  RopeConfig scaled = plain;
  scaled.scaling = RopeScaling::kLlama3;
  scaled.factor = 8;
  const auto a = RopeFrequencies(plain), b = RopeFrequencies(scaled);
  EXPECT_EQ(a.front(), b.front());
  EXPECT_FLOAT_EQ(a.back() / 8, b.back());
  for (size_t i = 1; i < b.size(); ++i) EXPECT_LT(b[i], b[i - 1]);
}

TEST(Rope, OddWidthsAreAnError) {
  EXPECT_THROW(RopeFrequencies({.head_dim = 7}), Error);
}

}  // namespace
}  // namespace headwise
