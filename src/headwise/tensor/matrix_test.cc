#include "headwise/tensor/matrix.h"

#include <gtest/gtest.h>

#include <cmath>

namespace headwise::matrix_test {
namespace {

class SvdTest : public testing::TestWithParam<std::pair<int, int>> {};

TEST_P(SvdTest, RebuildsTheMatrix) {
  Rng rng(3);
  const auto [rows, columns] = GetParam();
  const Matrix a = RandomNormal(rows, columns, rng);
  const Svd svd = SingularValues(a);
  Matrix scaled = svd.u;
  for (int64_t r = 0; r < scaled.rows; ++r) {
    for (int64_t c = 0; c < scaled.columns; ++c) scaled(r, c) *= svd.s[c];
  }
  EXPECT_LE(MaxDifference(scaled * Transpose(svd.v), a), 1e-12);
  for (const Matrix* m : {&svd.u, &svd.v}) {
    Matrix identity(m->columns, m->columns);
    for (int64_t i = 0; i < m->columns; ++i) identity(i, i) = 1;
    EXPECT_LE(MaxDifference(Transpose(*m) * *m, identity), 1e-12);
  }
  for (size_t i = 1; i < svd.s.size(); ++i) EXPECT_GE(svd.s[i - 1], svd.s[i]);
}

INSTANTIATE_TEST_SUITE_P(Shapes, SvdTest,
                         testing::Values(std::pair{1, 1}, std::pair{5, 5},
                                         std::pair{9, 4}, std::pair{4, 9}));

TEST(MatrixTest, KnownSingularValues) {
  Matrix a(2, 2);
  a.values = {3, 0, 4, 5};  // σ² are the eigenvalues 45 and 5 of aᵀa
  const Svd svd = SingularValues(a);
  EXPECT_NEAR(svd.s[0], std::sqrt(45), 1e-12);
  EXPECT_NEAR(svd.s[1], std::sqrt(5), 1e-12);
}

TEST(MatrixTest, PseudoInverseSolvesFullRowRank) {
  Rng rng(4);
  const Matrix x = RandomNormal(4, 9, rng);
  Matrix identity(4, 4);
  for (int64_t i = 0; i < 4; ++i) identity(i, i) = 1;
  EXPECT_LE(MaxDifference(x * PseudoInverse(x), identity), 1e-12);
}

TEST(MatrixTest, RankCountsIndependentRows) {
  Rng rng(5);
  for (const int64_t rank : {0, 1, 3, 4}) {
    const Matrix product =
        RandomNormal(7, rank, rng) * RandomNormal(rank, 4, rng);
    EXPECT_EQ(RankOf(product), rank);
    EXPECT_EQ(RankOf(Transpose(product)), rank);
    // As f32 holds it.
    EXPECT_EQ(RankOf(FromTensor(AsSequence(product))), rank);
  }
}

TEST(MatrixTest, DifferenceShowsNan) {
  Matrix a(1, 2), b(1, 2);
  a(0, 0) = std::nan("");
  b(0, 1) = 1;
  EXPECT_FALSE(MaxDifference(a, b) <= 10);
}

}  // namespace
}  // namespace headwise::matrix_test
