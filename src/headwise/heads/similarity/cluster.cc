// Linkage and scaling. Door: cluster.h.
#include "headwise/heads/similarity/cluster.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "headwise/base/rng.h"

namespace headwise {
namespace {

// Groups while they are joined: members in drawing order, and mean distances.
struct Groups {
  explicit Groups(const Matrix& d) : distance(d), members(d.rows) {
    for (int64_t i = 0; i < d.rows; ++i) members[i] = {i};
  }

  // The two living groups with the least distance; {0, 0} where one is left.
  std::pair<int64_t, int64_t> Nearest() const {
    std::pair<int64_t, int64_t> best{0, 0};
    double least = std::numeric_limits<double>::infinity();
    for (int64_t a = 0; a < distance.rows; ++a) {
      if (members[a].empty()) continue;
      for (int64_t b = 0; b < a; ++b) {
        if (members[b].empty() || !(distance(a, b) < least)) continue;
        least = distance(a, b);
        best = {b, a};
      }
    }
    return best;
  }

  // b becomes part of a; distances are means over all pairs of members.
  void Join(int64_t a, int64_t b) {
    const auto na = static_cast<double>(members[a].size());
    const auto nb = static_cast<double>(members[b].size());
    for (int64_t c = 0; c < distance.rows; ++c) {
      distance(a, c) = distance(c, a) =
          (na * distance(a, c) + nb * distance(b, c)) / (na + nb);
    }
    members[a].insert(members[a].end(), members[b].begin(), members[b].end());
    members[b].clear();
  }

  Matrix distance;
  std::vector<std::vector<int64_t>> members;
};

// Columns made orthonormal by Gram–Schmidt, twice for accuracy; a column that
// vanishes stays zero.
void Orthonormalise(Matrix& a) {
  for (int64_t c = 0; c < a.columns; ++c) {
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t before = 0; before < c; ++before) {
        double dot = 0;
        for (int64_t r = 0; r < a.rows; ++r) dot += a(r, before) * a(r, c);
        for (int64_t r = 0; r < a.rows; ++r) a(r, c) -= dot * a(r, before);
      }
    }
    double norm = 0;
    for (int64_t r = 0; r < a.rows; ++r) norm += a(r, c) * a(r, c);
    norm = std::sqrt(norm);
    for (int64_t r = 0; r < a.rows; ++r) {
      a(r, c) = norm > 1e-200 ? a(r, c) / norm : 0;
    }
  }
}

// The two largest eigenvalues ≥ 0 of a symmetric matrix, with their vectors
// [n, 2], by subspace iteration with a few vectors to spare.
std::pair<std::vector<double>, Matrix> LeadingPair(const Matrix& a) {
  constexpr int64_t kVectors = 8;
  constexpr int kSteps = 200;
  const int64_t width = std::min(kVectors, a.rows);
  Rng rng(1);
  Matrix basis = RandomNormal(a.rows, width, rng);
  Orthonormalise(basis);
  for (int step = 0; step < kSteps; ++step) {
    basis = a * basis;
    Orthonormalise(basis);
  }
  // Within the subspace: symmetric, so an eigenvalue is a singular value with
  // the sign by which its two vectors agree.
  const Svd svd = SingularValues(Transpose(basis) * (a * basis));
  std::vector<std::pair<double, int64_t>> order;
  for (int64_t c = 0; c < width; ++c) {
    double sign = 0;
    for (int64_t r = 0; r < width; ++r) sign += svd.u(r, c) * svd.v(r, c);
    order.emplace_back(sign < 0 ? -svd.s[c] : svd.s[c], c);
  }
  std::sort(order.rbegin(), order.rend());
  const Matrix vectors = basis * svd.v;
  std::vector<double> values(2);
  Matrix leading(a.rows, 2);
  for (int64_t axis = 0; axis < std::min<int64_t>(2, width); ++axis) {
    values[axis] = std::max(0.0, order[axis].first);
    for (int64_t r = 0; r < a.rows; ++r) {
      leading(r, axis) = vectors(r, order[axis].second);
    }
  }
  return {values, leading};
}

}  // namespace

Clustering AverageLinkage(const Matrix& distance, double cut) {
  const int64_t n = distance.rows;
  Clustering result;
  result.group.assign(n, -1);
  Groups groups(distance);
  bool cutting = true;
  auto name_groups = [&] {
    int64_t next = 0;
    for (int64_t i = 0; i < n; ++i) {
      if (result.group[i] >= 0) continue;
      // A group keeps the index of its first member, so i leads one.
      for (const int64_t member : groups.members[i])
        result.group[member] = next;
      ++next;
    }
    cutting = false;
  };
  while (true) {
    const auto [a, b] = groups.Nearest();
    if (cutting && (a == b || groups.distance(a, b) > cut)) name_groups();
    if (a == b) break;
    groups.Join(a, b);
  }
  for (const auto& members : groups.members) {
    result.order.insert(result.order.end(), members.begin(), members.end());
  }
  return result;
}

Matrix ClassicalScaling(const Matrix& distance) {
  const int64_t n = distance.rows;
  if (n == 0) return Matrix(0, 2);
  Matrix centred(n, n);
  std::vector<double> mean(n);
  double all = 0;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      centred(i, j) = distance(i, j) * distance(i, j);
      mean[i] += centred(i, j) / static_cast<double>(n);
    }
    all += mean[i] / static_cast<double>(n);
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      centred(i, j) = -0.5 * (centred(i, j) - mean[i] - mean[j] + all);
    }
  }
  auto [values, points] = LeadingPair(centred);
  for (int64_t axis = 0; axis < 2; ++axis) {
    // Axes have no direction of their own: the farthest point is positive.
    double farthest = 0;
    for (int64_t i = 0; i < n; ++i) {
      if (std::abs(points(i, axis)) > std::abs(farthest) + 1e-9) {
        farthest = points(i, axis);
      }
    }
    const double scale = std::sqrt(values[axis]) * (farthest < 0 ? -1 : 1);
    for (int64_t i = 0; i < n; ++i) points(i, axis) *= scale;
  }
  return points;
}

}  // namespace headwise
