#include "headwise/ops/loss/loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/ops/loss/implementation.h"
#include "headwise/ops/test_device.h"
#include "headwise/ops/test_values.h"

namespace headwise::loss_test {
namespace {

using testing::HasSubstr;

double Formula(const std::vector<double>& z, int64_t target, double smoothing) {
  double sum = 0, total = 0;
  for (double v : z) {
    sum += std::exp(v);
    total += v;
  }
  return std::log(sum) - (1 - smoothing) * z[target] -
         smoothing / static_cast<double>(z.size()) * total;
}

// Logits lie at the beginning of longer rows.
struct Trial {
  CrossEntropyProblem problem;
  int64_t rows, classes;
  Tensor logits, targets;

  Trial(const CrossEntropyProblem& p, DType type, DType ids, const Shape& shape,
        Rng& rng)
      : problem(p), rows(shape[0]), classes(shape[1]) {
    logits = RandomTensor(type, {rows, classes + 2}, rng, 3);
    targets = Tensor(ids, {rows});
    for (int64_t row = 0; row < rows; ++row) {
      const bool skipped = rng.Below(5) == 0;
      Write(targets.view(),
            skipped ? kIgnoreTarget : static_cast<double>(rng.Below(classes)),
            row);
    }
  }
  ConstTensorView Logits() const {
    ConstTensorView view = logits.view();
    view.shape[1] = classes;
    return view;
  }
  // losses, dlogits
  std::vector<Tensor> Run(Context& context) const {
    std::vector<Tensor> results;
    results.emplace_back(DType::kF32, Shape{rows});
    results.emplace_back(logits.type(), Shape{rows, classes});
    Mirror at(context);
    CrossEntropy(context, problem,
                 {.logits = at(Logits()),
                  .targets = at(targets.view()),
                  .losses = at(results[0].view()),
                  .dlogits = at(results[1].view())});
    at.Back();
    return results;
  }
};

// Holds an entry to the reference. False where it does not take the type.
bool Agrees(Context& context, const Trial& trial) {
  Context reference({1, "loss:reference"});
  std::vector<Tensor> found;
  if (!IsTaken([&] { found = trial.Run(context); })) return false;
  ExpectNear(found, trial.Run(reference), Tolerance(trial.logits.type()));
  return true;
}

TEST(CrossEntropy, EveryImplementationAgreesWithTheReference) {
  const uint64_t seed = 20266;
  for (const auto& entry : CrossEntropyImplementations().entries) {
    const auto context = ContextFor("loss", entry.name);
    if (!context) continue;
    Rng rng(seed);
    int taken = 0;
    for (int round = 0; round < 40; ++round) {
      const DType type =
          std::vector{DType::kF32, DType::kBF16, DType::kF16}[rng.Below(3)];
      const DType ids = rng.Below(2) == 0 ? DType::kI32 : DType::kI64;
      const CrossEntropyProblem problem{rng.Below(2) == 0 ? 0.0f : 0.1f, 0.5f};
      const int64_t classes = rng.Between(1, rng.Below(4) == 0 ? 10000 : 100);
      const Trial trial(problem, type, ids, {rng.Between(0, 9), classes}, rng);
      SCOPED_TRACE(std::string(entry.name) + " " + ToString(trial.Logits()) +
                   " round " + std::to_string(round));
      taken += Agrees(*context, trial);
    }
    EXPECT_GE(taken, 8) << entry.name;
  }
}

TEST(CrossEntropy, TheReferenceFollowsTheFormulaAndItsSlopes) {
  Rng rng(9);
  Context context({1, "loss:reference"});
  for (const int64_t classes : {2, 13, 901}) {
    for (const float smoothing : {0.0f, 0.1f}) {
      Trial trial({smoothing, 0.5f}, DType::kF64, DType::kI32, {3, classes},
                  rng);
      const int32_t targets[] = {0, kIgnoreTarget,
                                 static_cast<int32_t>(classes - 1)};
      std::copy_n(targets, 3, trial.targets.As<int32_t>());
      const auto results = trial.Run(context);
      const float* losses = results[0].As<float>();
      const double* dlogits = results[1].As<double>();
      EXPECT_EQ(losses[1], 0);
      EXPECT_EQ(dlogits[classes], 0);
      for (const int row : {0, 2}) {
        const double* begin = trial.logits.As<double>() + row * (classes + 2);
        std::vector<double> z(begin, begin + classes);
        const auto loss = [&] { return Formula(z, targets[row], smoothing); };
        EXPECT_NEAR(losses[row], loss(), 2e-6);
        for (int64_t c = 0; c < classes; c += 1 + classes / 7) {
          EXPECT_NEAR(dlogits[row * classes + c], 0.5 * Slope(z[c], loss),
                      1e-8);
        }
      }
    }
  }
}

TEST(CrossEntropy, GradientMayOverwriteTheLogits) {
  Rng rng(2);
  for (const auto& entry : CrossEntropyImplementations().entries) {
    const auto context = ContextFor("loss", entry.name);
    if (!context) continue;
    Trial trial({}, DType::kF32, DType::kI32, {4, 37}, rng);
    const auto apart = trial.Run(*context);
    Tensor losses(DType::kF32, {4});
    TensorView both = trial.logits.view();
    both.shape[1] = trial.classes;
    Mirror at(*context);
    CrossEntropy(
        *context, {},
        {at(both), at(trial.targets.view()), at(losses.view()), at(both)});
    at.Back();
    EXPECT_EQ(ToVector(both), ToVector(apart[1].view())) << entry.name;
    EXPECT_EQ(ToVector(losses.view()), ToVector(apart[0].view()));
  }
}

TEST(CrossEntropy, AClassThatIsShutOutHasNoShare) {
  const float shut = -std::numeric_limits<float>::infinity();
  const std::vector<float> logits = {1, shut, 1};
  const int32_t target = 2;
  for (const auto& entry : CrossEntropyImplementations().entries) {
    const auto context = ContextFor("loss", entry.name);
    if (!context) continue;
    float loss = 0;
    std::vector<float> dlogits(3);
    Mirror at(*context);
    CrossEntropy(*context, {},
                 {.logits = at(View(logits.data(), {1, 3})),
                  .targets = at(ConstTensorView(&target, DType::kI32, {1})),
                  .losses = at(View(&loss, {1})),
                  .dlogits = at(View(dlogits.data(), {1, 3}))});
    at.Back();
    EXPECT_NEAR(loss, std::log(2.0), 1e-6) << entry.name;
    EXPECT_EQ(dlogits[1], 0) << entry.name;
  }
}

// A whole pack of −∞ before the first logit that is not, and after it.
TEST(CrossEntropy, ShutOutClassesMayComeFirst) {
  const float shut = -std::numeric_limits<float>::infinity();
  std::vector<float> logits(5000, shut);
  logits[2500] = -3;
  logits[4999] = 2;
  const int32_t target = 4999;
  for (const auto& entry : CrossEntropyImplementations().entries) {
    const auto context = ContextFor("loss", entry.name);
    if (!context) continue;
    float loss = 0;
    Mirror at(*context);
    CrossEntropy(*context, {},
                 {.logits = at(View(std::as_const(logits).data(), {1, 5000})),
                  .targets = at(ConstTensorView(&target, DType::kI32, {1})),
                  .losses = at(View(&loss, {1}))});
    at.Back();
    EXPECT_NEAR(loss, std::log1p(std::exp(-5.0)), 1e-6) << entry.name;
  }
}

// A device does not stop to tell the host.
TEST(CrossEntropy, OnADeviceATargetThatIsNoClassShowsAsNaN) {
  const auto context = ContextFor("loss", "cuda");
  if (!context) GTEST_SKIP() << "no GPU";
  const std::vector<float> logits = {1, 2, 3, 4, 5, 6};
  const std::vector<int32_t> targets = {3, 1};
  std::vector<float> losses(2), dlogits(6);
  Mirror at(*context);
  CrossEntropy(
      *context, {},
      {.logits = at(View(logits.data(), {2, 3})),
       .targets = at(ConstTensorView(targets.data(), DType::kI32, {2})),
       .losses = at(View(losses.data(), {2})),
       .dlogits = at(View(dlogits.data(), {2, 3}))});
  at.Back();
  EXPECT_TRUE(std::isnan(losses[0]));
  EXPECT_TRUE(std::isnan(dlogits[1]));
  EXPECT_TRUE(std::isfinite(losses[1]));
  EXPECT_TRUE(std::isfinite(dlogits[4]));
}

TEST(CrossEntropy, WhatDoesNotFitIsNamed) {
  Context context({1, ""});
  Tensor logits(DType::kF32, {2, 3}), targets(DType::kI32, {2}),
      losses(DType::kF32, {2}), wrong(DType::kF32, {3, 2});
  const auto error = [&](const CrossEntropyArgs& args) {
    return ErrorOf([&] { CrossEntropy(context, {}, args); });
  };
  targets.As<int32_t>()[1] = 3;
  EXPECT_THAT(error({logits.view(), targets.view(), losses.view()}),
              HasSubstr("targets in [0, 3); found 3 in row 1"));
  EXPECT_THAT(error({logits.view(), losses.view(), losses.view()}),
              HasSubstr("targets i32 [2]"));
  EXPECT_THAT(error({logits.view(), targets.view()}),
              HasSubstr("losses f32 [2]; found none"));
  EXPECT_THAT(
      error({logits.view(), targets.view(), losses.view(), wrong.view()}),
      HasSubstr("dlogits f32 [2, 3]"));
  ConstTensorView elsewhere = targets.view();
  elsewhere.device = Device::Cuda(0);
  EXPECT_THAT(error({logits.view(), elsewhere, losses.view()}),
              HasSubstr("on cuda:0"));
}

}  // namespace
}  // namespace headwise::loss_test
