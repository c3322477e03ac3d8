#include "headwise/ops/activation/activation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/ops/activation/implementation.h"
#include "headwise/ops/test_device.h"
#include "headwise/ops/test_values.h"
#include "headwise/tensor/slice.h"

namespace headwise::activation_test {
namespace {

using testing::HasSubstr;

constexpr Activation kKinds[] = {
    Activation::kRelu, Activation::kGelu, Activation::kGeluTanh,
    Activation::kSilu, Activation::kTanh, Activation::kClampedSilu};

double Formula(Activation kind, double x) {
  switch (kind) {
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kGelu:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::kGeluTanh:
      return 0.5 * x *
             (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kClampedSilu: {
      const double c = std::min(x, 7.0);
      return c / (1 + std::exp(-1.702 * c));
    }
  }
  return 0;
}

// What it is multiplied with, of u.
double UpFormula(Activation kind, double u) {
  return kind == Activation::kClampedSilu ? std::clamp(u, -7.0, 7.0) + 1 : u;
}

// x and up lie side by side, as a gated layer's do, or apart.
struct Trial {
  ActivationProblem problem;
  int64_t rows = 0, width = 0;
  bool gated = false;
  Tensor in, dy;

  Trial(Activation kind, DType type, const Shape& shape, bool has_gate,
        Rng& rng)
      : problem{kind}, rows(shape[0]), width(shape[1]), gated(has_gate) {
    in = RandomTensor(type, {rows, gated ? 2 * width : width}, rng, 3);
    dy = RandomTensor(type, shape, rng);
  }
  ActivationArgs Args() {
    return {.x = Columns(in.view(), 0, width),
            .up = gated ? Columns(in.view(), width, 2 * width) : TensorView()};
  }
  // y, dx and dup side by side, and y of the backward.
  std::vector<Tensor> Run(Context& context) {
    const DType type = in.type();
    Tensor y(type, {rows, width}), again(type, {rows, width});
    Tensor din(type, ShapeOf(in.view()));
    Mirror at(context);
    at(std::as_const(in).view());  // both its halves, side by side
    at(din.view());
    ActivationArgs args = Args();
    args.x = at(args.x);
    args.up = at(args.up);
    args.y = at(y.view());
    ActivationForward(context, problem, args);
    args.y = at(again.view());
    ActivationBackward(context, problem, args,
                       {.dy = at(dy.view()),
                        .dx = at(Columns(din.view(), 0, width)),
                        .dup = gated ? at(Columns(din.view(), width, 2 * width))
                                     : TensorView()});
    at.Back();
    std::vector<Tensor> results;
    results.push_back(std::move(y));
    results.push_back(std::move(din));
    results.push_back(std::move(again));
    return results;
  }
};

// Holds an entry to the reference. False where it does not take the type.
bool Agrees(Context& context, Trial& trial) {
  Context reference({1, "activation:reference"});
  std::vector<Tensor> found;
  if (!IsTaken([&] { found = trial.Run(context); })) return false;
  ExpectNear(found, trial.Run(reference), Tolerance(trial.in.type()));
  return true;
}

TEST(Activation, EveryImplementationAgreesWithTheReference) {
  const uint64_t seed = 20262;
  for (const auto& entry : ActivationImplementations().entries) {
    const auto context = ContextFor("activation", entry.name);
    if (!context) continue;
    Rng rng(seed);
    int taken = 0;
    for (int round = 0; round < 40; ++round) {
      const Activation kind = kKinds[rng.Below(6)];
      const DType type = std::vector{DType::kF32, DType::kBF16, DType::kF16,
                                     DType::kF64}[rng.Below(4)];
      const int64_t rows = rng.Between(0, 20);
      const int64_t width =
          round % 3 == 0 ? 8 * rng.Between(1, 400) : rng.Between(1, 1500);
      Trial trial(kind, type, {rows, width}, rng.Below(2) == 0, rng);
      SCOPED_TRACE(std::string(entry.name) + " " + ToString(trial.in.view()) +
                   " round " + std::to_string(round));
      taken += Agrees(*context, trial);
    }
    EXPECT_GE(taken, 6) << entry.name;
  }
}

TEST(Activation, TheReferenceFollowsTheFormula) {
  Rng rng(5);
  Context context({1, "activation:reference"});
  for (const Activation kind : kKinds) {
    for (const bool gated : {false, true}) {
      Trial trial(kind, DType::kF64, {7, 30}, gated, rng);
      trial.in.As<double>()[0] = 90;
      trial.in.As<double>()[1] = -90;
      const auto results = trial.Run(context);
      const auto y = ToVector(results[0].view()),
                 dy = ToVector(trial.dy.view());
      EXPECT_EQ(ToVector(results[2].view()), y);
      const int64_t columns = trial.in.shape(1);
      for (int64_t n = 0; n < trial.rows * trial.width; ++n) {
        const int64_t at = n / trial.width * columns + n % trial.width;
        double x = trial.in.As<double>()[at];
        double u = gated ? trial.in.As<double>()[at + trial.width] : 0;
        const double up = gated ? UpFormula(kind, u) : 1;
        const double f = Formula(kind, x);
        ASSERT_NEAR(y[n], f * up, 1e-12 * std::max(1.0, std::abs(f * up)));
        const double slope = Slope(x, [&] { return Formula(kind, x); });
        ASSERT_NEAR(results[1].As<double>()[at], slope * up * dy[n], 1e-8) << x;
        if (!gated) continue;
        const double up_slope = Slope(u, [&] { return UpFormula(kind, u); });
        ASSERT_NEAR(results[1].As<double>()[at + trial.width],
                    f * dy[n] * up_slope,
                    1e-8 * std::max(1.0, std::abs(f * dy[n])));
      }
    }
  }
}

// Closer than the random trials ask for, over more than one task and a tail.
TEST(Activation, SinglePrecisionLosesLittle) {
  Rng rng(6);
  Context reference({1, "activation:reference"});
  for (const auto& entry : ActivationImplementations().entries) {
    const auto context = ContextFor("activation", entry.name);
    if (!context) continue;
    for (const Activation kind : kKinds) {
      Trial trial(kind, DType::kF32, {1, 20011}, false, rng);
      trial.in.As<float>()[0] = 90;
      trial.in.As<float>()[1] = -90;
      const auto found = trial.Run(*context), truth = trial.Run(reference);
      for (int64_t i = 0; i < trial.width; ++i) {
        const double y = truth[0].As<float>()[i];
        ASSERT_NEAR(found[0].As<float>()[i], y,
                    2e-6 * std::max(1.0, std::abs(y)))
            << entry.name << " at " << trial.in.As<float>()[i];
      }
    }
  }
}

TEST(Activation, ResultsMayTakeThePlaceOfInputs) {
  Rng rng(7);
  for (const auto& entry : ActivationImplementations().entries) {
    const auto context = ContextFor("activation", entry.name);
    if (!context) continue;
    Trial trial(Activation::kSilu, DType::kF32, {5, 33}, true, rng);
    const auto apart = trial.Run(*context);
    const ActivationArgs args = trial.Args();
    Tensor dup(DType::kF32, {5, 33});
    Mirror at(*context);
    const TensorView dy = at(trial.dy.view());
    ActivationBackward(*context, trial.problem,
                       {.x = at(args.x), .up = at(args.up)},
                       {.dy = dy, .dx = dy, .dup = at(dup.view())});
    at.Back();
    const auto dx = ToVector(trial.dy.view());
    for (int64_t n = 0; n < trial.dy.size(); ++n) {
      ASSERT_EQ(dx[n], apart[1].As<float>()[n / 33 * 66 + n % 33]);
    }
    for (const int64_t column : {int64_t{0}, trial.width}) {
      Tensor copy = CopyOf(trial.in);
      const TensorView y = Columns(copy.view(), column, column + trial.width);
      Mirror on(*context);
      on(std::as_const(copy).view());
      const ConstTensorView x = Columns(copy.view(), 0, trial.width);
      const ConstTensorView up =
          Columns(copy.view(), trial.width, 2 * trial.width);
      ActivationForward(*context, trial.problem,
                        {.x = on(x), .up = on(up), .y = on(y)});
      on.Back();
      EXPECT_EQ(ToVector(y), ToVector(apart[0].view())) << entry.name;
    }
  }
}

TEST(Activation, WhatDoesNotFitIsNamed) {
  Context context({1, ""});
  Tensor x(DType::kF32, {2, 4}), wrong(DType::kF32, {2, 3}),
      other(DType::kBF16, {2, 4});
  const auto forward = [&](const ActivationArgs& args) {
    return ErrorOf([&] { ActivationForward(context, {}, args); });
  };
  EXPECT_THAT(forward({.x = x.view(), .up = wrong.view(), .y = x.view()}),
              HasSubstr("up f32 [2, 4]"));
  EXPECT_THAT(forward({.x = x.view(), .y = other.view()}),
              HasSubstr("y f32 [2, 4]"));
  ConstTensorView elsewhere = x.view();
  elsewhere.device = Device::Cuda(1);
  EXPECT_THAT(forward({.x = elsewhere, .y = x.view()}), HasSubstr("on cuda:1"));
  EXPECT_THAT(ErrorOf([&] {
                ActivationBackward(context, {}, {.x = x.view(), .up = x.view()},
                                   {.dy = x.view(), .dx = x.view()});
              }),
              HasSubstr("dup f32 [2, 4]; found none"));
  Context fast({1, "activation:cpu.f32"});
  EXPECT_THAT(ErrorOf([&] {
                ActivationForward(fast, {},
                                  {.x = other.view(), .y = other.view()});
              }),
              HasSubstr("takes f32 only, not bf16"));
}

}  // namespace
}  // namespace headwise::activation_test
