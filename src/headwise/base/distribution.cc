// Measures of probability rows. Door: distribution.h.
#include "headwise/base/distribution.h"

#include <algorithm>
#include <cmath>

namespace headwise {

double Entropy(std::span<const double> p) {
  double sum = 0;
  for (double value : p) {
    if (value > 0) sum -= value * std::log(value);
  }
  return sum;
}

double KlDivergence(std::span<const double> p, std::span<const double> q) {
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] > 0) sum += p[i] * std::log(p[i] / q[i]);
  }
  return sum;
}

double JensenShannon(std::span<const double> p, std::span<const double> q) {
  std::vector<double> middle(p.size());
  for (size_t i = 0; i < p.size(); ++i) middle[i] = (p[i] + q[i]) / 2;
  return (KlDivergence(p, middle) + KlDivergence(q, middle)) / 2;
}

double TotalVariation(std::span<const double> p, std::span<const double> q) {
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) sum += std::abs(p[i] - q[i]);
  return sum / 2;
}

std::vector<double> Mean(std::span<const std::vector<double>> rows) {
  std::vector<double> mean(rows.front().size());
  for (const std::vector<double>& row : rows) {
    for (size_t i = 0; i < mean.size(); ++i) {
      mean[i] += row[i] / static_cast<double>(rows.size());
    }
  }
  return mean;
}

std::vector<double> Softmax(std::span<const double> logits) {
  const double top = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p(logits.size());
  double total = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    total += p[i] = std::exp(logits[i] - top);
  }
  for (double& value : p) value /= total;
  return p;
}

}  // namespace headwise
