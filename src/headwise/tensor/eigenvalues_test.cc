#include "headwise/tensor/eigenvalues.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "headwise/error.h"

namespace headwise::eigenvalues_test {
namespace {

TEST(EigenvaluesTest, RotationsAndScalings) {
  Matrix a(3, 3);  // a quarter turn, twice as long, beside a 5
  a(0, 1) = -2;
  a(1, 0) = 2;
  a(2, 2) = 5;
  auto found = Eigenvalues(a);
  std::sort(found.begin(), found.end(),
            [](auto x, auto y) { return x.imag() < y.imag(); });
  EXPECT_NEAR(std::abs(found[0] - std::complex<double>(0, -2)), 0, 1e-12);
  EXPECT_NEAR(std::abs(found[1] - std::complex<double>(5, 0)), 0, 1e-12);
  EXPECT_NEAR(std::abs(found[2] - std::complex<double>(0, 2)), 0, 1e-12);
}

TEST(EigenvaluesTest, TheirSumIsTheTrace) {
  Rng rng(3);
  const Matrix a = RandomNormal(64, 64, rng);
  double trace = 0;
  for (int i = 0; i < 64; ++i) trace += a(i, i);
  std::complex<double> sum = 0;
  for (const auto value : Eigenvalues(a)) sum += value;
  EXPECT_NEAR(sum.real(), trace, 1e-10);
  EXPECT_NEAR(sum.imag(), 0, 1e-10);
}

TEST(EigenvaluesTest, RefusesWhatHasNone) {
  EXPECT_THROW(Eigenvalues(Matrix(2, 3)), Error);
  Matrix nan(2, 2);
  nan(0, 0) = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(Eigenvalues(nan), Error);
  EXPECT_TRUE(Eigenvalues(Matrix()).empty());
}

}  // namespace
}  // namespace headwise::eigenvalues_test
