// Hard concrete gates on the CPU, in f64 up to the gate. Door: steps.h.
#include <algorithm>
#include <cmath>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/ops/gate/cpu/steps.h"

namespace headwise {
namespace {

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Stretched {
  double gate;
  double slope;  // by what went into the sigmoid
};

Stretched Stretch(const ConcreteProblem& p, double x) {
  const double s = Sigmoid(x);
  const double wide = s * (p.high - p.low) + p.low;
  const bool inside = wide > 0 && wide < 1;
  return {std::clamp(wide, 0.0, 1.0),
          inside ? (p.high - p.low) * s * (1 - s) : 0.0};
}

double Open(const ConcreteProblem& p, double log_alpha) {
  const double shift = p.temperature * std::log(-p.low / p.high);
  return Sigmoid(log_alpha - shift);
}

void Forward(Context& context, const ConcreteCall& call) {
  const ConcreteProblem& p = call.problem;
  const ConcreteArgs& a = call.args;
  const int64_t heads = a.log_alpha.shape[0];
  const float* log_alpha = a.log_alpha.Raw<float>();
  const int32_t* starts = a.starts.Raw<int32_t>();
  float* gates = a.gates.Raw<float>();
  context.pool().ParallelFor(a.slopes.shape[0], [&](int64_t b, int) {
    for (int64_t h = 0; h < heads; ++h) {
      Stretched gate = Stretch(p, log_alpha[h]);
      if (a.noise) {
        const double u = a.noise.Raw<double>()[b * heads + h];
        const double drawn = std::log(u) - std::log1p(-u) + log_alpha[h];
        gate = Stretch(p, drawn / p.temperature);
        gate.slope /= p.temperature;
      }
      a.slopes.Raw<float>()[b * heads + h] = static_cast<float>(gate.slope);
      for (int64_t t = starts[b]; t < starts[b + 1]; ++t) {
        gates[t * heads + h] = static_cast<float>(gate.gate);
      }
    }
  });
  for (int64_t h = 0; a.open && h < heads; ++h) {
    a.open.Raw<double>()[h] = Open(p, log_alpha[h]);
  }
}

// One sum a head, over the tokens in order.
void Backward(Context& context, const ConcreteCall& call) {
  const ConcreteArgs& a = call.args;
  const int64_t heads = a.log_alpha.shape[0], sequences = a.slopes.shape[0];
  const int32_t* starts = a.starts.Raw<int32_t>();
  const float* dgates = call.grads->dgates.Raw<float>();
  context.pool().ParallelFor(heads, [&](int64_t h, int) {
    double sum = 0;
    for (int64_t b = 0; b < sequences; ++b) {
      const double slope = a.slopes.Raw<float>()[b * heads + h];
      for (int64_t t = starts[b]; t < starts[b + 1]; ++t) {
        sum += slope * dgates[t * heads + h];
      }
    }
    const double open = Open(call.problem, a.log_alpha.Raw<float>()[h]);
    sum += call.grads->penalty * open * (1 - open);
    call.grads->dlog_alpha.Raw<float>()[h] += static_cast<float>(sum);
  });
}

}  // namespace

void RunOnCpu(Context& context, const ConcreteCall& call) {
  call.grads == nullptr ? Forward(context, call) : Backward(context, call);
}

}  // namespace headwise
