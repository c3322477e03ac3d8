// Small dense matrices. Door: matrix.h.
#include "headwise/tensor/matrix.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace headwise {

Matrix RandomNormal(int64_t rows, int64_t columns, Rng& rng) {
  Matrix a(rows, columns);
  for (double& value : a.values) value = rng.Normal();
  return a;
}

Matrix Transpose(const Matrix& a) {
  Matrix t(a.columns, a.rows);
  for (int64_t r = 0; r < a.rows; ++r) {
    for (int64_t c = 0; c < a.columns; ++c) t(c, r) = a(r, c);
  }
  return t;
}

Matrix operator*(const Matrix& a, const Matrix& b) {
  Matrix product(a.rows, b.columns);
  for (int64_t r = 0; r < a.rows; ++r) {
    double* out = product.values.data() + r * b.columns;
    for (int64_t i = 0; i < a.columns; ++i) {
      const double factor = a(r, i);
      const double* row = b.values.data() + i * b.columns;
      for (int64_t c = 0; c < b.columns; ++c) out[c] += factor * row[c];
    }
  }
  return product;
}

double Worst(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  return std::max(a, b);
}

double MaxDifference(const Matrix& a, const Matrix& b) {
  double worst = 0;
  for (size_t i = 0; i < a.values.size(); ++i) {
    worst = Worst(worst, std::abs(a.values[i] - b.values[i]));
  }
  return worst;
}

Matrix FromTensor(const Tensor& tensor) {
  const int64_t columns = tensor.shape(tensor.rank() - 1);
  Matrix a(tensor.size() / columns, columns);
  if (tensor.type() == DType::kF64) {
    std::copy_n(tensor.As<double>(), tensor.size(), a.values.begin());
  } else {
    std::copy_n(tensor.As<float>(), tensor.size(), a.values.begin());
  }
  return a;
}

Tensor AsTensor(const Matrix& a) {
  Tensor tensor(DType::kF64, {a.rows, a.columns});
  std::copy(a.values.begin(), a.values.end(), tensor.As<double>());
  return tensor;
}

Tensor AsSequence(const Matrix& a) {
  Tensor tensor(DType::kF32, {1, a.rows, a.columns});
  std::transform(a.values.begin(), a.values.end(), tensor.As<float>(),
                 [](double value) { return static_cast<float>(value); });
  return tensor;
}

void SetColumns(Tensor& tensor, int64_t first, const Matrix& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    for (int64_t c = 0; c < a.columns; ++c) {
      tensor.As<float>()[r * tensor.shape(1) + first + c] =
          static_cast<float>(a(r, c));
    }
  }
}

namespace {

// Turns columns i and j of a (and of v alike) until they are orthogonal;
// false when they already were.
bool Rotate(Matrix& a, Matrix& v, int64_t i, int64_t j) {
  double ii = 0, jj = 0, ij = 0;
  for (int64_t r = 0; r < a.rows; ++r) {
    ii += a(r, i) * a(r, i);
    jj += a(r, j) * a(r, j);
    ij += a(r, i) * a(r, j);
  }
  if (std::abs(ij) <= 1e-15 * std::sqrt(ii * jj)) return false;
  const double zeta = (jj - ii) / (2 * ij);
  const double t =
      (zeta >= 0 ? 1 : -1) / (std::abs(zeta) + std::sqrt(1 + zeta * zeta));
  const double cosine = 1 / std::sqrt(1 + t * t), sine = cosine * t;
  auto turn = [&](Matrix& m) {
    for (int64_t r = 0; r < m.rows; ++r) {
      const double left = m(r, i), right = m(r, j);
      m(r, i) = cosine * left - sine * right;
      m(r, j) = sine * left + cosine * right;
    }
  };
  turn(a);
  turn(v);
  return true;
}

Svd TallSingularValues(Matrix a) {
  const int64_t n = a.columns;
  Matrix v(n, n);
  for (int64_t i = 0; i < n; ++i) v(i, i) = 1;
  constexpr int kSweeps = 60;  // converges quadratically; ~10 are needed
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    bool turned = false;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = i + 1; j < n; ++j) turned |= Rotate(a, v, i, j);
    }
    if (!turned) break;
  }
  std::vector<double> norms(static_cast<size_t>(n));
  for (int64_t c = 0; c < n; ++c) {
    for (int64_t r = 0; r < a.rows; ++r) norms[c] += a(r, c) * a(r, c);
    norms[c] = std::sqrt(norms[c]);
  }
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int64_t l, int64_t r) { return norms[l] > norms[r]; });
  Svd svd{Matrix(a.rows, n), {}, Matrix(n, n)};
  for (int64_t c = 0; c < n; ++c) {
    const int64_t from = order[c];
    svd.s.push_back(norms[from]);
    for (int64_t r = 0; r < a.rows; ++r) {
      svd.u(r, c) = norms[from] > 0 ? a(r, from) / norms[from] : 0;
    }
    for (int64_t r = 0; r < n; ++r) svd.v(r, c) = v(r, from);
  }
  return svd;
}

}  // namespace

Svd SingularValues(const Matrix& a) {
  if (a.rows >= a.columns) return TallSingularValues(a);
  Svd svd = TallSingularValues(Transpose(a));
  std::swap(svd.u, svd.v);
  return svd;
}

// Gaussian elimination by the largest number that is left.
int64_t RankOf(Matrix a) {
  constexpr double kEpsilon = 1.2e-7;  // of f32
  double limit = 0;
  int64_t rank = 0;
  for (; rank < std::min(a.rows, a.columns); ++rank) {
    double largest = 0;
    int64_t row = rank, column = rank;
    for (int64_t r = rank; r < a.rows; ++r) {
      for (int64_t c = rank; c < a.columns; ++c) {
        if (!(std::abs(a(r, c)) > largest)) continue;
        largest = std::abs(a(r, c));
        row = r;
        column = c;
      }
    }
    if (rank == 0) {
      limit =
          kEpsilon * static_cast<double>(std::max(a.rows, a.columns)) * largest;
    }
    if (!(largest > limit)) break;
    for (int64_t c = 0; c < a.columns; ++c) std::swap(a(rank, c), a(row, c));
    for (int64_t r = 0; r < a.rows; ++r) std::swap(a(r, rank), a(r, column));
    for (int64_t r = rank + 1; r < a.rows; ++r) {
      const double factor = a(r, rank) / a(rank, rank);
      for (int64_t c = rank + 1; c < a.columns; ++c) {
        a(r, c) -= factor * a(rank, c);
      }
    }
  }
  return rank;
}

Matrix PseudoInverse(const Matrix& a) {
  Svd svd = SingularValues(a);
  for (size_t c = 0; c < svd.s.size(); ++c) {
    const double scale = svd.s[c] > 1e-12 * svd.s[0] ? 1 / svd.s[c] : 0;
    for (int64_t r = 0; r < svd.v.rows; ++r) svd.v(r, c) *= scale;
  }
  return svd.v * Transpose(svd.u);
}

}  // namespace headwise
