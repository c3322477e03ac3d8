// The reference: the formulas of activation.h in double, any type, host memory.
// Door: implementation.h.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "headwise/ops/activation/implementation.h"
#include "headwise/tensor/element.h"

namespace headwise {
namespace {

struct ValueAndSlope {
  double value;
  double slope;
};

ValueAndSlope At(Activation kind, double x) {
  using std::numbers::inv_sqrtpi, std::numbers::sqrt2;
  switch (kind) {
    case Activation::kRelu:
      return x > 0 ? ValueAndSlope{x, 1} : ValueAndSlope{0, 0};
    case Activation::kGelu: {
      const double phi = 0.5 * (1 + std::erf(x / sqrt2));
      const double density = inv_sqrtpi / sqrt2 * std::exp(-0.5 * x * x);
      return {x * phi, phi + x * density};
    }
    case Activation::kGeluTanh: {
      const double root = sqrt2 * inv_sqrtpi, cubic = 0.044715;
      const double t = std::tanh(root * (x + cubic * x * x * x));
      const double inner = root * (1 + 3 * cubic * x * x);
      return {0.5 * x * (1 + t), 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner};
    }
    case Activation::kSilu: {
      const double s = 1 / (1 + std::exp(-x));
      return {x * s, s + x * s * (1 - s)};
    }
    case Activation::kTanh: {
      const double t = std::tanh(x);
      return {t, 1 - t * t};
    }
    case Activation::kClampedSilu: {
      const double c = std::min(x, kClampedSiluLimit);
      const double s = 1 / (1 + std::exp(-kClampedSiluSlope * c));
      if (x > kClampedSiluLimit) return {c * s, 0};
      return {c * s, s + kClampedSiluSlope * c * s * (1 - s)};
    }
  }
  return {};
}

// What f(x) is multiplied with.
ValueAndSlope UpAt(Activation kind, double u) {
  if (kind != Activation::kClampedSilu) return {u, 1};
  const bool inside = std::abs(u) <= kClampedSiluLimit;
  return {1 + std::clamp(u, -kClampedSiluLimit, kClampedSiluLimit),
          inside ? 1.0 : 0.0};
}

Reason WhyNot(const ActivationCall& call) {
  return call.args.x.device.is_cpu() ? "" : "reads host memory only";
}

void Run(Context&, const ActivationCall& call) {
  const ActivationArgs& a = call.args;
  const ActivationGrads* g = call.grads;
  for (int64_t row = 0; row < a.x.shape[0]; ++row) {
    for (int64_t i = 0; i < a.x.shape[1]; ++i) {
      // All is read before anything is written: y may be x or up, dx dy.
      const auto [value, slope] = At(call.problem.kind, Read(a.x, row, i));
      const auto [up, up_slope] =
          a.up ? UpAt(call.problem.kind, Read(a.up, row, i))
               : ValueAndSlope{1, 0};
      const double dy = g != nullptr ? Read(g->dy, row, i) : 0;
      Write(a.y, value * up, row, i);
      if (g == nullptr) continue;
      Write(g->dx, dy * up * slope, row, i);
      if (a.up) Write(g->dup, dy * value * up_slope, row, i);
    }
  }
}

}  // namespace

const Implementation<ActivationCall> kActivationReference = {
    .name = "reference", .why_not = WhyNot, .run = Run};

}  // namespace headwise
