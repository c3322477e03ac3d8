// Quantiles of Student's t. Door: quantiles.h.
#include "headwise/base/quantiles.h"

#include <cmath>
#include <limits>

namespace headwise {
namespace {

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();
constexpr int kMostTerms = 100000;  // √max(a, b) of them are enough
constexpr int kMostSteps = 200;     // as many halvings end anywhere

// The continued fraction of I_x(a, b), which converges quickly for
// x < (a + 1) / (a + b + 2); evaluated from the front (Lentz).
double BetaFraction(double x, double a, double b) {
  constexpr double kTiny = 1e-300;
  const auto away = [](double v) { return std::abs(v) < kTiny ? kTiny : v; };
  double c = 1, d = 1 / away(1 - (a + b) * x / (a + 1)), value = d;
  for (int m = 1; m < kMostTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / away(1 + even * d);
    c = away(1 + even / c);
    value *= c * d;
    const double odd =
        -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / away(1 + odd * d);
    c = away(1 + odd / c);
    value *= c * d;
    if (std::abs(c * d - 1) < kEpsilon) break;
  }
  return value;
}

double LogBeta(double a, double b) {
  return std::lgamma(a) + std::lgamma(b) - std::lgamma(a + b);
}

double StudentDensity(double t, double freedom) {
  return std::exp(-0.5 * (freedom + 1) * std::log1p(t * t / freedom) -
                  0.5 * std::log(freedom) - LogBeta(0.5 * freedom, 0.5));
}

// Half of what lies outside of ±t.
double StudentTail(double t, double freedom) {
  return 0.5 * BetaBelow(freedom / (freedom + t * t), 0.5 * freedom, 0.5);
}

}  // namespace

double BetaBelow(double x, double a, double b) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front =
      std::exp(a * std::log(x) + b * std::log1p(-x) - LogBeta(a, b));
  if (x < (a + 1) / (a + b + 2)) return front * BetaFraction(x, a, b) / a;
  return 1 - front * BetaFraction(1 - x, b, a) / b;
}

double StudentBelow(double t, double freedom) {
  const double tail = StudentTail(t, freedom);
  return t < 0 ? tail : 1 - tail;
}

double StudentQuantile(double p, double freedom) {
  if (p == 0.5) return 0;
  if (p < 0.5) return -StudentQuantile(1 - p, freedom);
  const double wanted = 1 - p;
  double low = 0, high = 1;
  while (StudentTail(high, freedom) > wanted) {
    low = high;
    high *= 2;
  }
  // Newton's steps, halved where they leave what encloses the quantile.
  double t = 0.5 * (low + high);
  for (int step = 0; step < kMostSteps; ++step) {
    const double beyond = StudentTail(t, freedom) - wanted;
    (beyond > 0 ? low : high) = t;
    double next = t + beyond / StudentDensity(t, freedom);
    if (!(next > low && next < high)) next = 0.5 * (low + high);
    if (std::abs(next - t) <= 4 * kEpsilon * t) return next;
    t = next;
  }
  return t;
}

}  // namespace headwise
