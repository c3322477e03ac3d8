// Measures of probability rows, in nats and in double. 0 · ln 0 is 0.
#pragma once

#include <span>
#include <vector>

namespace headwise {

double Entropy(std::span<const double> p);
// KL(p‖q); +∞ where p > 0 and q = 0.
double KlDivergence(std::span<const double> p, std::span<const double> q);
double JensenShannon(std::span<const double> p, std::span<const double> q);
// ½ Σ |p − q|
double TotalVariation(std::span<const double> p, std::span<const double> q);
// The column-wise mean of `rows`, all of one length.
std::vector<double> Mean(std::span<const std::vector<double>> rows);
std::vector<double> Softmax(std::span<const double> logits);

}  // namespace headwise
