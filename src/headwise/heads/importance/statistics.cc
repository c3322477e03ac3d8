// Bootstrap, tests, ranks. Door: statistics.h.
#include "headwise/heads/importance/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "headwise/base/intervals.h"
#include "headwise/base/quantiles.h"
#include "headwise/base/rng.h"

namespace headwise {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double NormalBelow(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

// The value below which a share of the sorted values lies, between neighbours
// in proportion.
double Quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] +
         (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

bool HoldsNaN(std::span<const double> values) {
  return std::any_of(values.begin(), values.end(),
                     [](double value) { return std::isnan(value); });
}

// 1 for the smallest; equal values share the mean of their ranks. No NaN, which
// has no place in an order.
std::vector<double> RanksWithTies(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) {
      ++end;
    }
    for (size_t i = begin; i < end; ++i) {
      ranks[order[i]] = 0.5 * static_cast<double>(begin + end + 1);
    }
    begin = end;
  }
  return ranks;
}

std::vector<double> Clipped(std::span<const double> values) {
  std::vector<double> clipped(values.begin(), values.end());
  for (double& value : clipped) value = std::max(value, 0.0);
  return clipped;
}

double Sum(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// Σ sums / Σ weights and its standard error, linearised. 0 of no weights.
struct RatioEstimate {
  double value = 0, error = 0;
};
RatioEstimate EstimateRatio(std::span<const double> sums,
                            std::span<const double> weights) {
  const double total = Sum(weights), n = static_cast<double>(sums.size());
  if (total <= 0) return {};
  RatioEstimate ratio{Sum(sums) / total};
  double squares = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    const double residual = sums[i] - ratio.value * weights[i];
    squares += residual * residual;
  }
  ratio.error = std::sqrt(squares * n / (n - 1)) / total;
  return ratio;
}

}  // namespace

PairedBootstrap::PairedBootstrap(std::vector<double> weights,
                                 int64_t replicates, uint64_t seed)
    : weights_(std::move(weights)), replicates_(replicates), tail_(0) {
  const size_t count = weights_.size();
  if (count < 2) return;
  const double n = static_cast<double>(count);
  tail_ = NormalBelow(-std::sqrt(n / (n - 1)) * StudentQuantile(0.975, n - 1));
  counts_.assign(replicates * count, 0);
  totals_.assign(replicates, 0.0);
  for (int64_t r = 0; r < replicates; ++r) {
    Rng rng(seed, static_cast<uint64_t>(r));
    for (size_t i = 0; i < count; ++i) {
      const uint64_t drawn = rng.Below(count);
      ++counts_[r * count + drawn];
      totals_[r] += weights_[drawn];
    }
  }
}

Interval PairedBootstrap::Ratio(std::span<const double> sums) const {
  const double total = Sum(weights_);
  const double value = total > 0 ? Sum(sums) / total : 0;
  const size_t count = weights_.size();
  if (count < 2) return {value, -kInfinity, kInfinity};
  std::vector<double> values(replicates_);
  for (int64_t r = 0; r < replicates_; ++r) {
    const uint8_t* drawn = counts_.data() + r * count;
    double sum = 0;
    for (size_t i = 0; i < count; ++i) sum += drawn[i] * sums[i];
    values[r] = totals_[r] > 0 ? sum / totals_[r] : value;
  }
  std::sort(values.begin(), values.end());
  return {value, Quantile(values, tail_), Quantile(values, 1 - tail_)};
}

Interval PairedBootstrap::Share(std::span<const double> sums) const {
  const RatioEstimate share = EstimateRatio(sums, weights_);
  const Ends ends = MeanEnds(share.value, share.error,
                             static_cast<int64_t>(weights_.size()), kShare);
  return {share.value, ends.low, ends.high};
}

double BelowZeroP(std::span<const double> sums,
                  std::span<const double> weights) {
  if (sums.size() < 2 || Sum(weights) <= 0) return 1;
  const RatioEstimate ratio = EstimateRatio(sums, weights);
  if (ratio.error == 0) return ratio.value < 0 ? 0 : 1;
  return StudentBelow(ratio.value / ratio.error,
                      static_cast<double>(sums.size() - 1));
}

std::vector<bool> BenjaminiHochberg(std::span<const double> p, double q) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return p[a] < p[b]; });
  size_t rejected = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const double limit =
        q * static_cast<double>(i + 1) / static_cast<double>(order.size());
    if (p[order[i]] <= limit) rejected = i + 1;
  }
  std::vector<bool> reject(p.size(), false);
  for (size_t i = 0; i < rejected; ++i) reject[order[i]] = true;
  return reject;
}

double Spearman(std::span<const double> a, std::span<const double> b) {
  if (HoldsNaN(a) || HoldsNaN(b)) return kNaN;
  const std::vector<double> x = RanksWithTies(a), y = RanksWithTies(b);
  const double mean = 0.5 * (static_cast<double>(x.size()) + 1);
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xy / std::sqrt(xx * yy);
}

double Kendall(std::span<const double> a, std::span<const double> b) {
  if (HoldsNaN(a) || HoldsNaN(b)) return kNaN;
  double concordant = 0, a_apart = 0, b_apart = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const int x = (a[i] > a[j]) - (a[i] < a[j]);
      const int y = (b[i] > b[j]) - (b[i] < b[j]);
      concordant += x * y;
      a_apart += x * x;
      b_apart += y * y;
    }
  }
  return concordant / std::sqrt(a_apart * b_apart);
}

double Gini(std::span<const double> values) {
  std::vector<double> sorted = Clipped(values);
  std::sort(sorted.begin(), sorted.end());
  const double total = Sum(sorted), n = static_cast<double>(sorted.size());
  if (total <= 0) return 0;
  double weighted = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    weighted += static_cast<double>(i + 1) * sorted[i];
  }
  return 2 * weighted / (n * total) - (n + 1) / n;
}

double EffectiveNumber(std::span<const double> values) {
  const std::vector<double> clipped = Clipped(values);
  const double total = Sum(clipped);
  if (total <= 0) return 0;
  double entropy = 0;
  for (const double value : clipped) {
    if (value > 0) entropy -= value / total * std::log(value / total);
  }
  return std::exp(entropy);
}

int64_t CountForShare(std::span<const double> values, double share) {
  std::vector<double> sorted = Clipped(values);
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  const double wanted = share * Sum(sorted);
  double held = 0;
  int64_t count = 0;
  for (const double value : sorted) {
    if (held >= wanted) break;
    held += value;
    ++count;
  }
  return count;
}

}  // namespace headwise
