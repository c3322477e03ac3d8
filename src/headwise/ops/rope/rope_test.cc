#include "headwise/ops/rope/rope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/error.h"
#include "headwise/ops/rope/implementation.h"
#include "headwise/ops/test_device.h"
#include "headwise/ops/test_values.h"
#include "headwise/tensor/slice.h"

namespace headwise::rope_test {
namespace {

using testing::HasSubstr;

constexpr RopeProblem kForward{RopeDirection::kForward};
constexpr RopeProblem kBackward{RopeDirection::kBackward};

RopeProblem AnyProblem(Rng& rng) {
  RopeProblem problem;
  if (rng.Below(3) == 0) problem.pairs = RopePairs::kNeighbours;
  if (rng.Below(3) == 0) problem.scale = 1.375f;
  return problem;
}

// x [T, H, D] lies at the beginning of longer rows.
struct Trial {
  Tensor rows, positions, frequencies;
  Shape shape;

  Trial(DType type, DType ids, const Shape& sizes, int64_t half, Rng& rng,
        int64_t gap = 5)
      : shape(sizes) {
    rows = RandomTensor(type, {shape[0], shape[1] * shape[2] + gap}, rng);
    positions = Tensor(ids, {shape[0]});
    for (int64_t t = 0; t < shape[0]; ++t) {
      Write(positions.view(), static_cast<double>(rng.Below(200)), t);
    }
    frequencies = Tensor(DType::kF32, {half});
    if (half == 0) return;
    const auto values = RopeFrequencies({.head_dim = 2 * half, .base = 100});
    std::copy(values.begin(), values.end(), frequencies.As<float>());
  }
  RopeArgs Args(Tensor& of) const {
    TensorView x(of.view().data, of.type(), shape);
    x.stride[0] = of.shape(1);
    return {frequencies.view(), positions.view(), x};
  }
  std::vector<Tensor> Run(Context& context, const RopeProblem& problem) const {
    std::vector<Tensor> result;
    result.push_back(CopyOf(rows));
    Mirror at(context);
    const RopeArgs args = Args(result[0]);
    Rope(context, problem,
         {at(args.frequencies), at(args.positions), at(args.x)});
    at.Back();
    return result;
  }
};

// Holds an entry to another. False where it does not take the type.
bool Agrees(Context& context, Context& other, const RopeProblem& problem,
            const Trial& trial, double tolerance) {
  std::vector<Tensor> found;
  if (!IsTaken([&] { found = trial.Run(context, problem); })) return false;
  ExpectNear(found, trial.Run(other, problem), tolerance);
  return true;
}

TEST(Rope, EveryImplementationAgreesWithTheReference) {
  const uint64_t seed = 20263;
  Context reference({1, "rope:reference"});
  for (const auto& entry : RopeImplementations().entries) {
    const auto context = ContextFor("rope", entry.name);
    if (!context) continue;
    Rng rng(seed);
    int taken = 0;
    for (int round = 0; round < 40; ++round) {
      const DType type =
          std::vector{DType::kF32, DType::kBF16, DType::kF16}[rng.Below(3)];
      const DType ids = rng.Below(2) == 0 ? DType::kI32 : DType::kI64;
      // A third lies as wide loads want it, some of it in more than one round.
      const bool even = round % 3 == 0;
      const int64_t half =
          even ? 8 * rng.Between(1, round == 6 ? 40 : 9) : rng.Between(0, 20);
      const Shape shape = {rng.Between(0, 50), rng.Between(1, 4),
                           2 * half + (even ? 8 : rng.Between(1, 7))};
      Trial trial(type, ids, shape, half, rng, even ? 0 : 5);
      RopeProblem problem = AnyProblem(rng);
      problem.direction = rng.Below(2) == 0 ? RopeDirection::kForward
                                            : RopeDirection::kBackward;
      SCOPED_TRACE(std::string(entry.name) + " " + Name(type) + " " +
                   ToString(shape) + " round " + std::to_string(round));
      taken += Agrees(*context, reference, problem, trial, Tolerance(type));
    }
    EXPECT_GE(taken, 8) << entry.name;
  }
}

// At far positions the angle's rounding counts: every entry but the reference,
// which calculates in double, has that of a product in f32.
TEST(Rope, FarPositionsTurnAlikeOnEveryDevice) {
  Rng rng(20);
  Trial trial(DType::kF32, DType::kI64, {64, 2, 64}, 32, rng);
  for (int64_t t = 0; t < 64; ++t) {
    Write(trial.positions.view(), static_cast<double>(rng.Below(1 << 20)), t);
  }
  Context cpu({1, "rope:cpu.f32"});
  for (const auto& entry : RopeImplementations().entries) {
    if (std::string(entry.name) == "reference") continue;
    const auto context = ContextFor("rope", entry.name);
    if (!context) continue;
    SCOPED_TRACE(entry.name);
    EXPECT_TRUE(Agrees(*context, cpu, kForward, trial, 1e-5));
  }
}

// Tokens of two sequences that join caches of different lengths.
struct AppendTrial {
  Trial turn;
  Tensor keys, values, value_cache;
  std::vector<int32_t> held;

  AppendTrial(DType type, const Shape& shape, int64_t half, int64_t groups,
              int64_t value_dim, int64_t gap, Rng& rng)
      : turn(type, DType::kI32, shape, half, rng, gap) {
    keys = RandomTensor(type, {2, 9, groups, shape[2] + gap}, rng);
    values = RandomTensor(type, {2, shape[0] / 2, groups, value_dim}, rng);
    value_cache = RandomTensor(type, {2, 9, groups, value_dim + gap}, rng);
    for (int b = 0; b < 2; ++b) {
      held.push_back(static_cast<int32_t>(rng.Between(0, 9 - shape[0] / 2)));
    }
  }

  // x and the caches, in one piece of work or in two.
  std::vector<Tensor> Run(Context& context, const RopeProblem& problem,
                          bool at_once) const {
    std::vector<Tensor> result;
    result.push_back(CopyOf(turn.rows));
    result.push_back(CopyOf(keys));
    result.push_back(CopyOf(value_cache));
    Mirror at(context);
    const RopeArgs host = turn.Args(result[0]);
    const RopeArgs args = {at(host.frequencies), at(host.positions),
                           at(host.x)};
    const TensorView k = at(Slice(result[1].view(), 3, 0, turn.shape[2]));
    const TensorView v = at(Slice(result[2].view(), 3, 0, values.shape(3)));
    const Appended of_values = {at(values.view()), v};
    const ConstTensorView there = at(ViewOf(held));
    if (at_once) {
      RopeAndAppend(context, problem, args, {k, of_values, there});
    } else {
      Rope(context, problem, args);
      const int64_t heads = turn.shape[1], groups = keys.shape(2);
      AppendRows(context,
                 {Reshaped(Slice(args.x, 1, heads - groups, heads),
                           {2, turn.shape[0] / 2, groups, turn.shape[2]}),
                  k},
                 of_values, there);
    }
    at.Back();
    return result;
  }
};

TEST(Rope, AppendsWhatItTurned) {
  for (const auto& entry : RopeImplementations().entries) {
    const auto context = ContextFor("rope", entry.name);
    if (!context) continue;
    Rng rng(77);
    int taken = 0;
    for (int round = 0; round < 40; ++round) {
      const DType type =
          std::vector{DType::kF32, DType::kBF16, DType::kF16}[round % 3];
      const bool even = rng.Below(2) == 0;  // as wide loads want it
      const int64_t half = even ? 8 * rng.Between(1, 8) : rng.Between(1, 20);
      const int64_t groups = rng.Between(1, 3);
      const Shape shape = {2 * rng.Between(1, 3), groups + rng.Between(0, 70),
                           2 * half + (round % 5 == 0 ? 8 : 0)};
      const AppendTrial trial(type, shape, half, groups,
                              even ? 8 * rng.Between(1, 20) : 13, even ? 0 : 3,
                              rng);
      SCOPED_TRACE(std::string(entry.name) + " " + Name(type) + " " +
                   ToString(shape) + " round " + std::to_string(round));
      std::vector<Tensor> found;
      const RopeProblem problem = AnyProblem(rng);
      const auto run = [&] { found = trial.Run(*context, problem, true); };
      if (!IsTaken(run)) continue;
      ++taken;
      ExpectNear(found, trial.Run(*context, problem, false), 0);
    }
    EXPECT_GE(taken, 8) << entry.name;
  }
}

TEST(Rope, TurnsPairsByPositionTimesFrequency) {
  const auto frequencies = RopeFrequencies({.head_dim = 4, .base = 100});
  EXPECT_FLOAT_EQ(frequencies[0], 1.0f);
  EXPECT_FLOAT_EQ(frequencies[1], 0.1f);
  const int32_t position = 3;
  for (const auto& entry : RopeImplementations().entries) {
    std::vector<float> x = {1, 1, 0, 0, 7};
    const auto context = ContextFor("rope", entry.name);
    if (!context) continue;
    Mirror at(*context);
    Rope(*context, kForward,
         {.frequencies = at(View(frequencies.data(), {2})),
          .positions = at(ConstTensorView(&position, DType::kI32, {1})),
          .x = at(View(x.data(), {1, 1, 5}))});
    at.Back();
    EXPECT_NEAR(x[0], std::cos(3.0), 1e-6);
    EXPECT_NEAR(x[2], std::sin(3.0), 1e-6);
    EXPECT_NEAR(x[1], std::cos(0.3), 1e-6);
    EXPECT_NEAR(x[3], std::sin(0.3), 1e-6);
    EXPECT_EQ(x[4], 7);
  }
}

TEST(Rope, TurnsNeighboursAndScales) {
  const float frequencies[] = {1.0f, 0.1f};
  const int32_t position = 3;
  const RopeProblem problem = {.pairs = RopePairs::kNeighbours, .scale = 2};
  for (const auto& entry : RopeImplementations().entries) {
    std::vector<float> x = {1, 0, 1, 0, 7};
    const auto context = ContextFor("rope", entry.name);
    if (!context) continue;
    Mirror at(*context);
    Rope(*context, problem,
         {.frequencies = at(ConstTensorView(frequencies, DType::kF32, {2})),
          .positions = at(ConstTensorView(&position, DType::kI32, {1})),
          .x = at(View(x.data(), {1, 1, 5}))});
    at.Back();
    EXPECT_NEAR(x[0], 2 * std::cos(3.0), 1e-6);
    EXPECT_NEAR(x[1], 2 * std::sin(3.0), 1e-6);
    EXPECT_NEAR(x[2], 2 * std::cos(0.3), 1e-6);
    EXPECT_NEAR(x[3], 2 * std::sin(0.3), 1e-6);
    EXPECT_EQ(x[4], 7);
  }
}

// Σ y · dy has the slope that the backward says.
class RopeSlopes : public testing::TestWithParam<RopePairs> {};

TEST_P(RopeSlopes, AreTheReferencesGradients) {
  Rng rng(3);
  Context context({1, "rope:reference"});
  Trial trial(DType::kF64, DType::kI32, {4, 2, 6}, 3, rng);
  Trial gradient(DType::kF64, DType::kI32, {4, 2, 6}, 3, rng);
  gradient.positions = CopyOf(trial.positions);
  const RopeProblem forward = {RopeDirection::kForward, GetParam(), 1.5f};
  const RopeProblem backward = {RopeDirection::kBackward, GetParam(), 1.5f};
  const auto dx = gradient.Run(context, backward);
  const auto loss = [&] {
    const auto y = trial.Run(context, forward);
    double sum = 0;
    for (int64_t i = 0; i < y[0].size(); ++i) {
      sum += y[0].As<double>()[i] * gradient.rows.As<double>()[i];
    }
    return sum;
  };
  for (int64_t i = 0; i < trial.rows.size(); ++i) {
    ASSERT_NEAR(dx[0].As<double>()[i], Slope(trial.rows.As<double>()[i], loss),
                1e-8);
  }
}

INSTANTIATE_TEST_SUITE_P(Rope, RopeSlopes,
                         testing::Values(RopePairs::kHalves,
                                         RopePairs::kNeighbours));

TEST(Rope, BackwardUndoesForward) {
  Rng rng(2);
  Trial trial(DType::kF32, DType::kI32, {40, 3, 8}, 4, rng);
  Context context({2, ""});
  Tensor x = CopyOf(trial.rows);
  Rope(context, kForward, trial.Args(x));
  EXPECT_GT(std::abs(x.As<float>()[29] - trial.rows.As<float>()[29]), 1e-3);
  Rope(context, kBackward, trial.Args(x));
  for (int64_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(x.As<float>()[i], trial.rows.As<float>()[i], 1e-5);
  }
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

// Over 1024 positions the pairs turn 163, 52, 16, 5, 1.6, … times: the first
// two are kept, the ramp ends at the sixth.
TEST(Rope, YarnDividesPairsThatTurnSeldom) {
  const RopeConfig plain{.head_dim = 16};
  RopeConfig scaled = plain;
  scaled.scaling = RopeScaling::kYarn;
  scaled.factor = 4;
  scaled.original_context = 1024;
  const auto a = RopeFrequencies(plain), b = RopeFrequencies(scaled);
  const double kept[] = {1, 1, 0.8125, 0.625, 0.4375, 0.25, 0.25, 0.25};
  for (size_t i = 0; i < b.size(); ++i) {
    EXPECT_FLOAT_EQ(b[i], static_cast<float>(kept[i] * a[i])) << i;
  }
  EXPECT_DOUBLE_EQ(YarnScale(4), 1 + 0.1 * std::log(4.0));
  EXPECT_EQ(YarnScale(0.5), 1);
}

TEST(Rope, DynamicBasesGrowBeyondTheOriginalContext) {
  const RopeConfig plain{.head_dim = 8};
  RopeConfig dynamic = plain;
  dynamic.scaling = RopeScaling::kDynamic;
  dynamic.factor = 3;
  dynamic.original_context = 100;
  for (const int64_t length : {0, 7, 100}) {
    EXPECT_EQ(RopeFrequencies(dynamic, length), RopeFrequencies(plain));
    EXPECT_EQ(RopeLength(dynamic, length), 100);
  }
  // Twice the context: the slowest pair is divided by 3 · 2 − 2.
  const auto b = RopeFrequencies(dynamic, 200);
  EXPECT_EQ(b[0], 1);
  EXPECT_FLOAT_EQ(b[3], RopeFrequencies(plain)[3] / 4);
  EXPECT_EQ(RopeLength(dynamic, 200), 200);
  EXPECT_EQ(RopeLength(plain, 200), 0);
}

TEST(Rope, LongropeDividesEachPairByAShortOrALongFactor) {
  const RopeConfig plain{.head_dim = 4, .base = 100};
  RopeConfig scaled = plain;
  scaled.scaling = RopeScaling::kLongrope;
  scaled.original_context = 100;
  scaled.short_factors = {1, 2};
  scaled.long_factors = {4, 5};
  EXPECT_THAT(RopeFrequencies(scaled, 100), testing::ElementsAre(1, 0.05f));
  EXPECT_THAT(RopeFrequencies(scaled, 101), testing::ElementsAre(0.25f, 0.02f));
  EXPECT_EQ(RopeLength(scaled, 3), RopeLength(scaled, 100));
  EXPECT_EQ(RopeLength(scaled, 101), RopeLength(scaled, 1000));
  EXPECT_NE(RopeLength(scaled, 100), RopeLength(scaled, 101));
  EXPECT_DOUBLE_EQ(LongropeScale(100, 100), std::sqrt(2.0));
  EXPECT_EQ(LongropeScale(0.5, 100), 1);
  scaled.long_factors = {4};
  EXPECT_THAT(ErrorOf([&] { RopeFrequencies(scaled); }),
              HasSubstr("2 short and long factors"));
}

TEST(Rope, SharesHaveFrequenciesOfTheirOwnOrOfTheHead) {
  RopeConfig share{.head_dim = 8, .turned = 4, .base = 10000};
  EXPECT_THAT(RopeFrequencies(share), testing::ElementsAre(1, 0.01f));
  share.scaling = RopeScaling::kProportional;
  share.factor = 2;
  EXPECT_THAT(RopeFrequencies(share), testing::ElementsAre(0.5f, 0.05f, 0, 0));
}

TEST(Rope, WidthsThatDoNotPairAreAnError) {
  EXPECT_THROW(RopeFrequencies({.head_dim = 7}), Error);
  EXPECT_THROW(RopeFrequencies({.head_dim = 8, .turned = 3}), Error);
  EXPECT_THROW(RopeFrequencies({.head_dim = 8, .turned = 10}), Error);
  EXPECT_THROW(
      RopeFrequencies({.head_dim = 2, .scaling = RopeScaling::kDynamic}),
      Error);
  EXPECT_THROW(RopeFrequencies({.head_dim = 2, .original_context = 0}), Error);
}

TEST(Rope, WhatDoesNotFitIsNamed) {
  Context context({1, ""});
  Tensor x(DType::kF32, {2, 1, 4}), frequencies(DType::kF32, {2}),
      long_ones(DType::kF32, {3}), positions(DType::kI32, {2}),
      one(DType::kI64, {1});
  const auto error = [&](const RopeArgs& args) {
    return ErrorOf([&] { Rope(context, kForward, args); });
  };
  EXPECT_THAT(error({frequencies.view(), one.view(), x.view()}),
              HasSubstr("positions i64 [2]"));
  EXPECT_THAT(error({frequencies.view(), x.view(), x.view()}),
              HasSubstr("positions i32 [2]"));
  EXPECT_THAT(error({long_ones.view(), positions.view(), x.view()}),
              HasSubstr("at least 6 dimensions"));
  EXPECT_THAT(error({positions.view(), positions.view(), x.view()}),
              HasSubstr("frequencies f32 [2]"));
  TensorView elsewhere = x.view();
  elsewhere.device = Device::Cuda(0);
  EXPECT_THAT(error({frequencies.view(), positions.view(), elsewhere}),
              HasSubstr("on cuda:0"));
}

}  // namespace
}  // namespace headwise::rope_test
