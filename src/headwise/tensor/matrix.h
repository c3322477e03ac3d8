// Small dense matrices in double: what is measured in f32 through the
// operators is checked, or summed up, here by plain arithmetic.
#pragma once

#include <cstdint>
#include <vector>

#include "headwise/base/rng.h"
#include "headwise/tensor.h"

namespace headwise {

// [rows, columns], row-major.
struct Matrix {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<double> values;

  Matrix() = default;
  Matrix(int64_t r, int64_t c)
      : rows(r), columns(c), values(static_cast<size_t>(r * c)) {}
  double& operator()(int64_t r, int64_t c) { return values[r * columns + c]; }
  double operator()(int64_t r, int64_t c) const {
    return values[r * columns + c];
  }
};

Matrix RandomNormal(int64_t rows, int64_t columns, Rng& rng);
Matrix Transpose(const Matrix& a);
Matrix operator*(const Matrix& a, const Matrix& b);
// The larger; NaN when either is, so that a NaN never passes as agreement.
double Worst(double a, double b);
double MaxDifference(const Matrix& a, const Matrix& b);

// An f32 or f64 tensor of rank ≥ 2 as [product of the others, last axis].
Matrix FromTensor(const Tensor& tensor);
// f64 [rows, columns]
Tensor AsTensor(const Matrix& a);
// f32 [1, rows, columns]: one sequence.
Tensor AsSequence(const Matrix& a);
// Copies a into columns [first, first + a.columns) of a matrix tensor.
void SetColumns(Tensor& tensor, int64_t first, const Matrix& a);

// a = u · diag(s) · vᵀ, s descending, u [m, r], v [n, r], r = min(m, n).
struct Svd {
  Matrix u;
  std::vector<double> s;
  Matrix v;
};
// One-sided Jacobi: accurate to rounding, meant for a few hundred columns.
Svd SingularValues(const Matrix& a);

// How many rows, or columns, are linearly independent, where numbers are known
// as well as f32 holds them.
int64_t RankOf(Matrix a);

// The Moore–Penrose inverse; singular values below 1e-12 of the largest
// count as 0.
Matrix PseudoInverse(const Matrix& a);

}  // namespace headwise
