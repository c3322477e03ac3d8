// The reference: the formulas of gate.h in double, host memory; the router's
// are in reference_route.cc. Door: implementation.h.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <variant>

#include "headwise/ops/gate/implementation.h"
#include "headwise/ops/gate/reference_route.h"
#include "headwise/tensor/element.h"

namespace headwise {
namespace {

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// The sequence of a token.
int64_t SequenceOf(const ConstTensorView& starts, int64_t token) {
  int64_t b = 0;
  while (Read(starts, b + 1) <= static_cast<double>(token)) ++b;
  return b;
}

// g before it is clamped, and its slope by log α; b < 0: nothing is drawn.
void Concrete(const ConcreteCall& call, int64_t b, int64_t h, double& wide,
              double& slope) {
  const ConcreteProblem& p = call.problem;
  double x = Read(call.args.log_alpha, h), by = 1;
  if (call.args.noise) {
    const double u = Read(call.args.noise, b, h);
    x = (std::log(u / (1 - u)) + x) / p.temperature;
    by = 1 / p.temperature;
  }
  const double s = Sigmoid(x);
  wide = s * (p.high - p.low) + p.low;
  slope = wide > 0 && wide < 1 ? (p.high - p.low) * s * (1 - s) * by : 0;
}

double Open(const ConcreteCall& call, int64_t h) {
  const ConcreteProblem& p = call.problem;
  return Sigmoid(Read(call.args.log_alpha, h) -
                 p.temperature * std::log(-p.low / p.high));
}

void RunStep(const ConcreteCall& call) {
  const ConcreteArgs& a = call.args;
  double wide = 0, slope = 0;
  for (int64_t h = 0; h < a.log_alpha.shape[0]; ++h) {
    const double open = Open(call, h);
    if (call.grads != nullptr) {
      double sum = call.grads->penalty * open * (1 - open);
      const ConstTensorView& dgates = call.grads->dgates;
      for (int64_t t = 0; t < dgates.shape[0]; ++t) {
        sum += Read(a.slopes, SequenceOf(a.starts, t), h) * Read(dgates, t, h);
      }
      const TensorView& to = call.grads->dlog_alpha;
      Write(to, Read(to, h) + sum, h);
      continue;
    }
    Write(a.open, open, h);
    for (int64_t b = 0; b < a.slopes.shape[0]; ++b) {
      Concrete(call, b, h, wide, slope);
      Write(a.slopes, slope, b, h);
    }
    for (int64_t t = 0; t < a.gates.shape[0]; ++t) {
      Concrete(call, SequenceOf(a.starts, t), h, wide, slope);
      Write(a.gates, std::clamp(wide, 0.0, 1.0), t, h);
    }
  }
}

void RunStep(const RouteCall& call) { RouteByReference(call); }

void RunStep(const SpanCall& call) {
  const int64_t reach = call.problem.reach;
  const double ramp = static_cast<double>(call.problem.ramp);
  const double limit = static_cast<double>(call.problem.limit);
  for (int64_t h = 0; h < call.spans.shape[0]; ++h) {
    const double z = limit * std::clamp(Read(call.spans, h), 0.0, 1.0);
    double sum = 0;
    for (int64_t i = 0; i <= 2 * reach; ++i) {
      const double m =
          (ramp + z - static_cast<double>(std::abs(i - reach))) / ramp;
      if (call.grads == nullptr) {
        Write(*call.table, std::log(std::clamp(m, 0.0, 1.0)), h, i);
      } else if (m > 0 && m < 1) {
        // ∂ log m / ∂ span = limit / (ramp · m)
        sum += Read(call.grads->dtable, h, i) * limit / (ramp * m);
      }
    }
    if (call.grads == nullptr) continue;
    const TensorView& to = call.grads->dspans;
    Write(to, Read(to, h) + sum + call.grads->penalty, h);
  }
}

void RunStep(const SequenceGateCall& call) {
  for (int64_t t = 0; t < call.y.shape[0]; ++t) {
    const int64_t b = SequenceOf(call.starts, t);
    for (int64_t h = 0; h < call.y.shape[1]; ++h) {
      const double x = call.x ? Read(call.x, t, h) : 1;
      Write(call.y, x * Read(call.factors, b, h), t, h);
    }
  }
}

void Compose(const ComposeArgs& a, int64_t b, int64_t t, int64_t h) {
  const double f = Read(a.outer, b, t, h);
  const double product = f * Read(a.own, b, t, h);
  Write(a.product, product, b, t, h);
  for (int64_t e = 0; a.replacement && e < a.share.shape[3]; ++e) {
    const double mu = Read(a.replacement, b, t, h, e);
    const double share = product == 1 ? 0 : (1 - f) / (1 - product);
    Write(a.share, share * mu, b, t, h, e);
  }
}

void RunStep(const ComposeCall& call) {
  const ComposeArgs& a = call.args;
  for (int64_t b = 0; b < a.own.shape[0]; ++b) {
    for (int64_t t = 0; t < a.own.shape[1]; ++t) {
      for (int64_t h = 0; h < a.own.shape[2]; ++h) Compose(a, b, t, h);
    }
  }
}

void RunStep(const ActiveCall& call) {
  for (int64_t h = 0; h < call.gates.shape[1]; ++h) {
    bool active = false;
    for (int64_t t = 0; t < call.gates.shape[0]; ++t) {
      active = active || Read(call.gates, t, h) != 0;
    }
    Write(call.active, active ? 1 : 0, h);
  }
}

Reason WhyNot(const GateCall& call) {
  const Device device =
      std::visit([](const auto& step) { return DeviceOf(step); }, call);
  return device.is_cpu() ? "" : "reads host memory only";
}

void Run(Context&, const GateCall& call) {
  std::visit([](const auto& step) { RunStep(step); }, call);
}

}  // namespace

const Implementation<GateCall> kGateReference = {
    .name = "reference", .why_not = WhyNot, .run = Run};

}  // namespace headwise
