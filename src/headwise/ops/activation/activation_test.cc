#include "headwise/ops/activation/activation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "headwise/base/rng.h"

namespace headwise {
namespace {

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
  }
  return 0;
}

class ActivationKinds : public testing::TestWithParam<Activation> {};

TEST_P(ActivationKinds, ForwardAndBackwardFollowTheFormula) {
  const Activation kind = GetParam();
  Rng rng(5);
  Context context({2, ""});
  for (const bool gated : {false, true}) {
    const int64_t n = 20011;  // more than one task, and a tail
    std::vector<float> x(n), up(n), dy(n), y(n), dx(n), dup(n);
    for (int64_t i = 0; i < n; ++i) {
      x[i] = static_cast<float>(3 * rng.Normal());
      up[i] = static_cast<float>(rng.Normal());
      dy[i] = static_cast<float>(rng.Normal());
    }
    x[0] = 90;
    x[1] = -90;
    const ActivationArgs args{kind, n, x.data(), gated ? up.data() : nullptr,
                              y.data()};
    ActivationForward(context, args);
    ActivationBackward(context, args,
                       {dy.data(), dx.data(), gated ? dup.data() : nullptr});
    for (int64_t i = 0; i < n; ++i) {
      const double f = Formula(kind, x[i]), u = gated ? up[i] : 1.0;
      ASSERT_NEAR(y[i], f * u, 2e-6 * std::max(1.0, std::abs(f * u))) << x[i];
      if (kind == Activation::kRelu && std::abs(x[i]) < 1e-3) continue;
      const double h = 1e-4;
      const double slope =
          (Formula(kind, x[i] + h) - Formula(kind, x[i] - h)) / (2 * h);
      const double truth = slope * u * dy[i];
      ASSERT_NEAR(dx[i], truth, 1e-5 * std::max(1.0, std::abs(truth))) << x[i];
      if (gated) {
        ASSERT_NEAR(dup[i], f * dy[i],
                    2e-6 * std::max(1.0, std::abs(f * dy[i])));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ActivationKinds,
                         testing::Values(Activation::kRelu, Activation::kGelu,
                                         Activation::kGeluTanh,
                                         Activation::kSilu, Activation::kTanh));

}  // namespace
}  // namespace headwise
