// Subspaces and their angles. Door: content.h.
#include "headwise/heads/similarity/content.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "headwise/ops/matmul/matmul.h"

namespace headwise {
namespace {

constexpr double kNoDirection = 1e-5;

double SquaredNorm(const Matrix& a, int64_t row) {
  double sum = 0;
  for (int64_t c = 0; c < a.columns; ++c) sum += a(row, c) * a(row, c);
  return sum;
}

// Takes the direction of row `by`, of length 1, out of row `row`.
void Remove(Matrix& a, int64_t row, int64_t by) {
  double dot = 0;
  for (int64_t c = 0; c < a.columns; ++c) dot += a(row, c) * a(by, c);
  for (int64_t c = 0; c < a.columns; ++c) a(row, c) -= dot * a(by, c);
}

}  // namespace

Matrix RowBasis(Matrix a) {
  double largest = 0;
  int64_t rank = 0;
  for (; rank < a.rows; ++rank) {
    // The longest row that is left comes next, so that a short one is noise.
    int64_t pivot = rank;
    double longest = -1;
    for (int64_t r = rank; r < a.rows; ++r) {
      const double norm = SquaredNorm(a, r);
      if (norm > longest) {
        longest = norm;
        pivot = r;
      }
    }
    if (rank == 0) largest = longest;
    if (!(longest > kNoDirection * kNoDirection * largest)) break;
    std::swap_ranges(&a(rank, 0), &a(rank, 0) + a.columns, &a(pivot, 0));
    // Once more against all: one pass leaves what cancelled.
    for (int64_t by = 0; by < rank; ++by) Remove(a, rank, by);
    const double scale = 1 / std::sqrt(SquaredNorm(a, rank));
    for (int64_t c = 0; c < a.columns; ++c) a(rank, c) *= scale;
    for (int64_t r = rank + 1; r < a.rows; ++r) Remove(a, r, rank);
  }
  a.rows = rank;
  a.values.resize(rank * a.columns);
  return a;
}

ContentSpaces SpacesOf(const HeadWeights& weights) {
  return {RowBasis(Transpose(FromTensor(weights.v))),
          RowBasis(FromTensor(weights.o))};
}

std::vector<double> PrincipalAngles(const Matrix& a, const Matrix& b) {
  if (a.rows == 0 || b.rows == 0) return {};
  std::vector<double> angles;
  for (const double cosine : SingularValues(a * Transpose(b)).s) {
    angles.push_back(std::acos(std::clamp(cosine, 0.0, 1.0)));
  }
  return angles;
}

Matrix MeanSquaredCosines(Context& context, std::span<const Matrix> spaces) {
  const auto n = static_cast<int64_t>(spaces.size());
  Matrix means(n, n);
  if (n == 0) return means;
  // All bases below each other: a head's products with all are one product.
  const int64_t width = spaces[0].columns;
  std::vector<int64_t> starts = {0};
  for (const Matrix& space : spaces)
    starts.push_back(starts.back() + space.rows);
  Tensor all(DType::kF32, {std::max<int64_t>(1, starts.back()), width});
  for (int64_t i = 0; i < n; ++i) {
    std::transform(spaces[i].values.begin(), spaces[i].values.end(),
                   all.As<float>() + starts[i] * width,
                   [](double value) { return static_cast<float>(value); });
  }
  for (int64_t i = 0; i < n; ++i) {
    const int64_t rank = spaces[i].rows, total = starts.back();
    Tensor product(DType::kF32, {rank, total});
    if (rank > 0) {
      MatmulProblem problem{.m = rank, .n = total, .k = width};
      problem.b = Operand::kTransposed;
      MatmulArgs args;
      args.a = View(std::as_const(all).As<float>() + starts[i] * width,
                    {rank, width});
      args.b = View(std::as_const(all).As<float>(), {total, width});
      args.c = product.view();
      Matmul(context, problem, args);
    }
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t r = 0; r < rank; ++r) {
        for (int64_t c = starts[j]; c < starts[j + 1]; ++c) {
          const double value = product.As<float>()[r * total + c];
          sum += value * value;
        }
      }
      const int64_t angles = std::min(rank, spaces[j].rows);
      means(i, j) = angles > 0
                        ? std::min(1.0, sum / static_cast<double>(angles))
                        : std::numeric_limits<double>::quiet_NaN();
    }
  }
  return means;
}

}  // namespace headwise
