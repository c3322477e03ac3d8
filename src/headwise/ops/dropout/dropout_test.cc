#include "headwise/ops/dropout/dropout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/ops/dropout/implementation.h"
#include "headwise/ops/test_device.h"
#include "headwise/ops/test_values.h"

namespace headwise::dropout_test {
namespace {

using testing::HasSubstr;

std::vector<float> Dropped(int threads, const DropoutMask& mask, int count) {
  Context context({threads, ""});
  std::vector<float> x(count, 1.0f);
  const TensorView view = View(x.data(), {1, count});
  Dropout(context, mask, {view, view});
  return x;
}

struct Trial {
  DropoutMask mask;
  Tensor from;
  int64_t width = 0;  // of longer rows

  std::vector<Tensor> Run(Context& context) const {
    ConstTensorView x = from.view();
    x.shape[1] = width;
    std::vector<Tensor> y;
    y.emplace_back(from.type(), Shape{from.shape(0), width});
    Mirror at(context);
    Dropout(context, mask, {at(x), at(y[0].view())});
    at.Back();
    return y;
  }
};

// Holds an entry to the reference. False where it does not take the trial.
bool Agrees(Context& context, const Trial& trial) {
  Context reference({1, "dropout:reference"});
  std::vector<Tensor> found;
  if (!IsTaken([&] { found = trial.Run(context); })) return false;
  const std::vector<Tensor> truth = trial.Run(reference);
  ExpectNear(found, truth, Tolerance(trial.from.type()));
  // Small values are near to 0 whether they are kept or not.
  const auto a = ToVector(found[0].view()), b = ToVector(truth[0].view());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i] == 0, b[i] == 0) << i;
  return true;
}

TEST(Dropout, EveryImplementationAgreesWithTheReference) {
  const uint64_t seed = 20265;
  for (const auto& entry : DropoutImplementations().entries) {
    const auto context = ContextFor("dropout", entry.name);
    if (!context) continue;
    Rng rng(seed);
    int taken = 0;
    for (int round = 0; round < 40; ++round) {
      const DType type =
          std::vector{DType::kF32, DType::kBF16, DType::kF16}[rng.Below(3)];
      const int64_t rows = rng.Between(0, 70), width = rng.Between(1, 600);
      const int64_t gap = rng.Below(2) == 0 ? 0 : 3;
      const DropoutMask mask{static_cast<float>(rng.Uniform()) * 0.9f,
                             rng.Below(100), rng.Below(100)};
      const Trial trial{mask, RandomTensor(type, {rows, width + gap}, rng),
                        width};
      SCOPED_TRACE(std::string(entry.name) + " " + ToString(trial.from.view()) +
                   " round " + std::to_string(round));
      taken += Agrees(*context, trial);
    }
    EXPECT_GE(taken, 4) << entry.name;
  }
}

// The reference against the mask's definition in dropout.h. It is linear: its
// slope is the factor that it shows here.
TEST(Dropout, TheReferenceFollowsTheDefinition) {
  Rng rng(3);
  Context context({1, "dropout:reference"});
  const Tensor x = RandomTensor(DType::kF64, {3, 50}, rng);
  Tensor y(DType::kF64, {3, 50});
  Dropout(context, {0.25f, 11, 12}, {x.view(), y.view()});
  for (int64_t n = 0; n < x.size(); ++n) {
    const double word = Philox(11, 12, n / 4)[n % 4];
    const double factor = word < 0.25 * 4294967296.0 ? 0 : 1 / 0.75;
    EXPECT_DOUBLE_EQ(y.As<double>()[n], factor * x.As<double>()[n]);
  }
}

TEST(Dropout, KeepsTheExpectedValueAndTheRate) {
  const int count = 100'003;
  double sum = 0;
  int zeros = 0;
  for (const float value : Dropped(2, {0.25f, 1, 2}, count)) {
    sum += value;
    if (value == 0) ++zeros;
  }
  EXPECT_NEAR(sum / count, 1, 0.01);
  EXPECT_NEAR(static_cast<double>(zeros) / count, 0.25, 0.01);
}

TEST(Dropout, IsTheSameAtAnyThreadCountAndOtherInOtherStreams) {
  const std::vector<float> one = Dropped(1, {0.5f, 7, 3}, 40'001);
  EXPECT_EQ(one, Dropped(3, {0.5f, 7, 3}, 40'001));
  EXPECT_NE(one, Dropped(1, {0.5f, 7, 4}, 40'001));
  EXPECT_NE(one, Dropped(1, {0.5f, 8, 3}, 40'001));
}

TEST(Dropout, DropsNearlyEverythingAtARateJustBelowOne) {
  const std::vector<float> values = Dropped(1, {0.999999f, 1, 1}, 10'000);
  EXPECT_LT(std::count_if(values.begin(), values.end(),
                          [](float value) { return value != 0; }),
            10);
}

TEST(Dropout, LeavesEverythingAtRateZero) {
  EXPECT_EQ(Dropped(1, {0, 1, 1}, 5), std::vector<float>(5, 1.0f));
}

TEST(Dropout, WhatDoesNotFitIsNamed) {
  Context context({1, ""}), fast({1, "dropout:cpu.f32"});
  Tensor x(DType::kF32, {2, 4}), wrong(DType::kF32, {4, 2});
  const auto error = [](Context& on, const DropoutArgs& args, float rate) {
    return ErrorOf([&] { Dropout(on, {rate, 1, 1}, args); });
  };
  EXPECT_THAT(error(context, {x.view(), wrong.view()}, 0.5f),
              HasSubstr("y f32 [2, 4]"));
  EXPECT_THAT(error(context, {x.view(), x.view()}, 1),
              HasSubstr("a rate from 0 to below 1"));
  ConstTensorView elsewhere = x.view();
  elsewhere.device = Device::Cuda(0);
  EXPECT_THAT(error(context, {elsewhere, x.view()}, 0.5f),
              HasSubstr("on cuda:0"));
  TensorView apart = x.view();
  apart.shape[1] = 3;
  EXPECT_THAT(error(fast, {apart, apart}, 0.5f),
              HasSubstr("takes rows that lie end to end"));
}

}  // namespace
}  // namespace headwise::dropout_test
