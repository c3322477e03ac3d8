#include "headwise/heads/similarity/cluster.h"

#include <gtest/gtest.h>

#include <cmath>

namespace headwise::cluster_test {
namespace {

Matrix Distances(const Matrix& points) {
  Matrix d(points.rows, points.rows);
  for (int64_t i = 0; i < points.rows; ++i) {
    for (int64_t j = 0; j < points.rows; ++j) {
      double sum = 0;
      for (int64_t c = 0; c < points.columns; ++c) {
        sum += std::pow(points(i, c) - points(j, c), 2);
      }
      d(i, j) = std::sqrt(sum);
    }
  }
  return d;
}

TEST(ClassicalScaling, RecoversATriangle) {
  Matrix corners(3, 2);
  corners.values = {0, 0, 3, 0, 0, 4};
  const Matrix d = Distances(corners);
  EXPECT_LE(MaxDifference(Distances(ClassicalScaling(d)), d), 1e-9);
}

TEST(ClassicalScaling, KeepsTheTwoWidestDirections) {
  Rng rng(5);
  Matrix points = RandomNormal(60, 5, rng);
  for (int64_t i = 0; i < points.rows; ++i) {
    points(i, 0) *= 9;
    points(i, 1) *= 5;
    for (int64_t c = 2; c < 5; ++c) points(i, c) *= 1e-3;
  }
  const Matrix d = Distances(points);
  EXPECT_LE(MaxDifference(Distances(ClassicalScaling(d)), d), .02);
}

TEST(ClassicalScaling, TakesOneHeadAndEqualHeads) {
  const Matrix one = ClassicalScaling(Matrix(1, 1));
  EXPECT_EQ(one(0, 0), 0);
  const Matrix equal = ClassicalScaling(Matrix(4, 4));
  for (const double value : equal.values) EXPECT_EQ(value, 0);
}

TEST(AverageLinkage, JoinsByMeanDistanceUpToTheCut) {
  // On a line: 0, 1 | 5, 6.5 | 20. Joined at 1, at 1.5, then the two pairs at
  // the mean of 5, 6.5, 4 and 5.5.
  Matrix points(5, 1);
  points.values = {0, 5, 1, 20, 6.5};
  const Matrix d = Distances(points);
  EXPECT_EQ(AverageLinkage(d, 1.2).group,
            (std::vector<int64_t>{0, 1, 0, 2, 3}));
  EXPECT_EQ(AverageLinkage(d, 2).group, (std::vector<int64_t>{0, 1, 0, 2, 1}));
  EXPECT_EQ(AverageLinkage(d, 5.2).group,
            (std::vector<int64_t>{0, 1, 0, 2, 1}));
  EXPECT_EQ(AverageLinkage(d, 5.3).group,
            (std::vector<int64_t>{0, 0, 0, 1, 0}));
  EXPECT_EQ(AverageLinkage(d, 2).order, (std::vector<int64_t>{0, 2, 1, 4, 3}));
}

}  // namespace
}  // namespace headwise::cluster_test
