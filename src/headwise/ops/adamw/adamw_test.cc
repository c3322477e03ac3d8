#include "headwise/ops/adamw/adamw.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/ops/adamw/implementation.h"
#include "headwise/ops/test_device.h"
#include "headwise/ops/test_values.h"

namespace headwise::adamw_test {
namespace {

using testing::HasSubstr;

struct Trial {
  std::vector<Tensor> state;  // value, first, second
  Tensor gradient;

  Trial(DType type, int64_t count, Rng& rng) {
    for (int i = 0; i < 3; ++i) {
      state.push_back(RandomTensor(DType::kF32, {count}, rng));
    }
    for (int64_t i = 0; i < count; ++i) {
      float& second = state[2].As<float>()[i];
      second = 0.1f + second * second;  // of squares
    }
    gradient = RandomTensor(type, {count}, rng);
  }
  AdamWArgs Args(std::vector<Tensor>& of) const {
    return {of[0].view(), gradient.view(), of[1].view(), of[2].view()};
  }
  // value, first, second
  std::vector<Tensor> Run(Context& context, const AdamWProblem& problem) const {
    std::vector<Tensor> results;
    for (const Tensor& tensor : state) results.push_back(CopyOf(tensor));
    Mirror at(context);
    const AdamWArgs args = Args(results);
    AdamW(context, problem,
          {at(args.value), at(args.gradient), at(args.first), at(args.second)});
    at.Back();
    return results;
  }
};

// Holds an entry to the reference. False where it does not take the type.
bool Agrees(Context& context, const AdamWProblem& problem, const Trial& trial) {
  Context reference({1, "adamw:reference"});
  std::vector<Tensor> found;
  if (!IsTaken([&] { found = trial.Run(context, problem); })) return false;
  ExpectNear(found, trial.Run(reference, problem), 1e-5);
  return true;
}

TEST(AdamW, EveryImplementationAgreesWithTheReference) {
  const uint64_t seed = 20267;
  for (const auto& entry : AdamWImplementations().entries) {
    const auto context = ContextFor("adamw", entry.name);
    if (!context) continue;
    Rng rng(seed);
    int taken = 0;
    for (int round = 0; round < 30; ++round) {
      const DType type =
          std::vector{DType::kF32, DType::kBF16, DType::kF64}[rng.Below(3)];
      const int64_t count = rng.Between(0, rng.Below(3) == 0 ? 20000 : 50);
      const Trial trial(type, count, rng);
      const AdamWProblem problem{.step = rng.Between(1, 1000),
                                 .rate = 0.01f,
                                 .decay = 0.1f * static_cast<float>(round % 2),
                                 .gradient_scale = 0.5f};
      SCOPED_TRACE(std::string(entry.name) + " " +
                   ToString(trial.gradient.view()));
      taken += Agrees(*context, problem, trial);
    }
    EXPECT_GE(taken, 6) << entry.name;
  }
}

// Parts of flat buffers begin anywhere, the gradient's elsewhere than others.
TEST(AdamW, BuffersMayBeginAnywhere) {
  Rng rng(8);
  Context reference({1, "adamw:reference"});
  const Trial trial(DType::kF32, 300, rng);
  const auto run = [&](Context& context, int64_t begin, int64_t shift) {
    std::vector<Tensor> results;
    for (const Tensor& tensor : trial.state) results.push_back(CopyOf(tensor));
    Mirror at(context);
    for (Tensor& tensor : results) at(tensor.view());
    at(trial.gradient.view());
    const auto part = [&](Tensor& of) {
      return at(View(of.As<float>() + begin, {200}));
    };
    AdamW(context, {},
          {.value = part(results[0]),
           .gradient = at(View(trial.gradient.As<float>() + shift, {200})),
           .first = part(results[1]),
           .second = part(results[2])});
    at.Back();
    return results;
  };
  for (const auto& entry : AdamWImplementations().entries) {
    const auto context = ContextFor("adamw", entry.name);
    if (!context) continue;
    for (const auto& [begin, shift] : {std::pair{3, 3}, std::pair{3, 8}}) {
      SCOPED_TRACE(std::string(entry.name) + " from " + std::to_string(begin) +
                   " and " + std::to_string(shift));
      ExpectNear(run(*context, begin, shift), run(reference, begin, shift),
                 1e-5);
    }
  }
}

// Some steps from nothing, in double.
TEST(AdamW, TheReferenceFollowsTheFormula) {
  Context context({1, "adamw:reference"});
  float value = 0.1f, first = 0, second = 0;
  double w = value, m = 0, v = 0;
  for (int t = 1; t <= 5; ++t) {
    const double gradient = std::cos(0.3 + t), g = 0.5 * gradient;
    AdamW(context,
          {.step = t, .rate = 0.01f, .decay = 0.1f, .gradient_scale = 0.5f},
          {.value = View(&value, {1}),
           .gradient = {&gradient, DType::kF64, {1}},
           .first = View(&first, {1}),
           .second = View(&second, {1})});
    m = 0.9 * m + 0.1 * g;
    v = 0.95 * v + 0.05 * g * g;
    const double mh = m / (1 - std::pow(0.9, t));
    const double vh = v / (1 - std::pow(0.95, t));
    w -= 0.01 * (mh / (std::sqrt(vh) + 1e-8) + 0.1 * w);
    EXPECT_NEAR(value, w, 1e-6) << t;
    EXPECT_NEAR(first, m, 1e-6) << t;
    EXPECT_NEAR(second, v, 1e-6) << t;
  }
}

// The first step moves every value by the rate, whatever the gradient's size.
TEST(AdamW, FirstStepHasTheSizeOfTheRate) {
  Context context({1, ""});
  Rng rng(4);
  Trial trial(DType::kF32, 50, rng);
  for (int i : {1, 2}) trial.state[i] = Tensor(DType::kF32, {50});
  for (int64_t i = 0; i < 50; ++i) {
    trial.gradient.As<float>()[i] = i % 2 == 0 ? 0.3f : -2.0f;
  }
  const auto after =
      trial.Run(context, {.rate = 0.01f, .gradient_scale = 1e-3f});
  for (int64_t i = 0; i < 50; ++i) {
    EXPECT_NEAR(after[0].As<float>()[i] - trial.state[0].As<float>()[i],
                i % 2 == 0 ? -0.01 : 0.01, 2e-4);
  }
}

TEST(AdamW, ThreadsDoNotChangeTheResult) {
  Context one({1, ""}), three({3, ""});
  Rng rng(5);
  const Trial trial(DType::kF32, 100'001, rng);
  const auto a = trial.Run(one, {}), b = trial.Run(three, {});
  EXPECT_EQ(ToVector(a[0].view()), ToVector(b[0].view()));
}

TEST(AdamW, WhatDoesNotFitIsNamed) {
  Context context({1, ""});
  Tensor value(DType::kF32, {4}), wrong(DType::kF32, {2, 2}),
      half(DType::kBF16, {4});
  const auto error = [&](const AdamWArgs& args) {
    return ErrorOf([&] { AdamW(context, {}, args); });
  };
  EXPECT_THAT(error({value.view(), wrong.view(), value.view(), value.view()}),
              HasSubstr("gradient f32 [4]"));
  EXPECT_THAT(error({value.view(), value.view(), half.view(), value.view()}),
              HasSubstr("first f32 [4]"));
  EXPECT_THAT(error({value.view(), value.view(), value.view()}),
              HasSubstr("second f32 [4]; found none"));
  ConstTensorView elsewhere = value.view();
  elsewhere.device = Device::Cuda(0);
  EXPECT_THAT(error({value.view(), elsewhere, value.view(), value.view()}),
              HasSubstr("on cuda:0"));
}

}  // namespace
}  // namespace headwise::adamw_test
