#include "headwise/ops/loss/loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/error.h"

namespace headwise {
namespace {

double Formula(const std::vector<double>& z, int32_t target, double smoothing) {
  double sum = 0, total = 0;
  for (double v : z) {
    sum += std::exp(v);
    total += v;
  }
  return std::log(sum) - (1 - smoothing) * z[target] -
         smoothing / static_cast<double>(z.size()) * total;
}

TEST(CrossEntropy, LossAndGradientFollowTheFormula) {
  Rng rng(9);
  Context context({2, ""});
  for (const int64_t classes : {2, 13, 9001}) {
    for (const float smoothing : {0.0f, 0.1f}) {
      const CrossEntropyProblem p{3, classes, smoothing};
      std::vector<float> logits(3 * classes), dlogits(3 * classes), losses(3);
      for (float& z : logits) z = static_cast<float>(3 * rng.Normal());
      const std::vector<int32_t> targets = {0, kIgnoreTarget,
                                            static_cast<int32_t>(classes - 1)};
      CrossEntropy(
          context, p,
          {logits.data(), targets.data(), losses.data(), dlogits.data(), 0.5f});
      EXPECT_EQ(losses[1], 0);
      EXPECT_EQ(dlogits[classes], 0);
      for (const int row : {0, 2}) {
        std::vector<double> z(logits.begin() + row * classes,
                              logits.begin() + (row + 1) * classes);
        EXPECT_NEAR(losses[row], Formula(z, targets[row], smoothing), 2e-5);
        for (int64_t c = 0; c < classes; c += 1 + classes / 7) {
          const double h = 1e-5, middle = z[c];
          z[c] = middle + h;
          const double up = Formula(z, targets[row], smoothing);
          z[c] = middle - h;
          const double down = Formula(z, targets[row], smoothing);
          z[c] = middle;
          EXPECT_NEAR(dlogits[row * classes + c], 0.5 * (up - down) / (2 * h),
                      1e-5);
        }
      }
    }
  }
}

TEST(CrossEntropy, GradientMayOverwriteTheLogits) {
  std::vector<float> logits = {1, 2, 3}, apart(3), losses(1);
  const std::vector<int32_t> targets = {1};
  Context context({1, ""});
  CrossEntropy(context, {1, 3, 0},
               {logits.data(), targets.data(), losses.data(), apart.data(), 1});
  CrossEntropy(
      context, {1, 3, 0},
      {logits.data(), targets.data(), losses.data(), logits.data(), 1});
  EXPECT_EQ(logits, apart);
}

TEST(CrossEntropy, ATargetOutsideTheClassesIsNamed) {
  std::vector<float> logits(3), losses(1);
  const std::vector<int32_t> targets = {3};
  Context context({1, ""});
  EXPECT_THROW(
      CrossEntropy(context, {1, 3, 0},
                   {logits.data(), targets.data(), losses.data(), nullptr, 1}),
      Error);
}

}  // namespace
}  // namespace headwise
