// Door: pool.h.
#include "headwise/runtime/pool.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "headwise/ops/activation/activation.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

// PyTorch's least length of what is normalized.
constexpr double kLeastLength = 1e-12;

double WeightOf(Pooling pooling, int64_t token) {
  return pooling == Pooling::kWeightedMean ? static_cast<double>(token + 1) : 1;
}

// One channel of all tokens.
double PoolChannel(std::span<const float> states, int64_t width,
                   int64_t channel, Pooling pooling) {
  const int64_t tokens = std::ssize(states) / width;
  const auto at = [&](int64_t token) -> double {
    return states[token * width + channel];
  };
  if (pooling == Pooling::kCls) return at(0);
  if (pooling == Pooling::kLast) return at(tokens - 1);
  double sum = 0, weights = 0, most = -std::numeric_limits<double>::infinity();
  for (int64_t t = 0; t < tokens; ++t) {
    const double weight = WeightOf(pooling, t);
    sum += weight * at(t);
    weights += weight;
    most = std::max(most, at(t));
  }
  if (pooling == Pooling::kMax) return most;
  return sum / (pooling == Pooling::kMeanSqrt ? std::sqrt(weights) : weights);
}

VectorRows RunDense(Context& context, const SentenceStep& step,
                    const VectorRows& rows) {
  const int64_t count = rows.rows(), out = step.dense.out();
  const Temp x(context, DType::kF32, {count, rows.width});
  const Temp y(context, DType::kF32, {count, out});
  Copy(context, Reshaped(ViewOf(rows.values), {count, rows.width}), x.view());
  step.dense.Forward(context, x.view(), y.view());
  if (step.activated) {
    ActivationForward(context, {step.activation},
                      {.x = y.view(), .y = y.view()});
  }
  return {out, ToVector<float>(context, y.view())};
}

}  // namespace

void PoolStates(std::span<const float> states, int64_t width,
                std::span<const Pooling> pooling, std::vector<float>& to) {
  for (const Pooling one : pooling) {
    for (int64_t channel = 0; channel < width; ++channel) {
      to.push_back(
          static_cast<float>(PoolChannel(states, width, channel, one)));
    }
  }
}

void NormalizeRows(VectorRows& rows) {
  for (int64_t r = 0; r < rows.rows(); ++r) {
    const auto row = std::span(rows.values)
                         .subspan(static_cast<size_t>(r * rows.width),
                                  static_cast<size_t>(rows.width));
    double squares = 0;
    for (const float value : row) squares += double{value} * value;
    const double length = std::max(std::sqrt(squares), kLeastLength);
    for (float& value : row) value = static_cast<float>(value / length);
  }
}

VectorRows RunSteps(Context& context, std::span<const SentenceStep> steps,
                    VectorRows rows) {
  for (const SentenceStep& step : steps) {
    if (step.dense) {
      rows = RunDense(context, step, rows);
    } else {
      NormalizeRows(rows);
    }
  }
  return rows;
}

}  // namespace headwise
