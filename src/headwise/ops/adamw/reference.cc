// The reference: the formulas of adamw.h in double, any type, host memory.
// Door: implementation.h.
#include <cmath>
#include <string>

#include "headwise/ops/adamw/implementation.h"
#include "headwise/tensor/element.h"

namespace headwise {
namespace {

Reason WhyNot(const AdamWCall& call) {
  return call.args.value.device.is_cpu() ? "" : "reads host memory only";
}

void Step(Context&, const AdamWCall& call) {
  const AdamWProblem& p = call.problem;
  const AdamWArgs& a = call.args;
  const double beta1 = p.beta1, beta2 = p.beta2;
  const double t = static_cast<double>(p.step);
  const double bias1 = 1 - std::pow(beta1, t);
  const double bias2 = 1 - std::pow(beta2, t);
  for (int64_t i = 0; i < a.value.shape[0]; ++i) {
    const double g = p.gradient_scale * Read(a.gradient, i);
    const double first = beta1 * Read(a.first, i) + (1 - beta1) * g;
    const double second = beta2 * Read(a.second, i) + (1 - beta2) * g * g;
    const double move = first / bias1 / (std::sqrt(second / bias2) + p.epsilon);
    const double value = Read(a.value, i);
    Write(a.first, first, i);
    Write(a.second, second, i);
    Write(a.value, value - p.rate * (move + p.decay * value), i);
  }
}

}  // namespace

const Implementation<AdamWCall> kAdamWReference = {
    .name = "reference", .why_not = WhyNot, .run = Step};

}  // namespace headwise
