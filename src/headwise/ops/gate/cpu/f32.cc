// cpu.f32: each step over the context's threads. Door: ../implementation.h.
#include <algorithm>
#include <string>
#include <variant>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/ops/gate/cpu/steps.h"
#include "headwise/ops/gate/implementation.h"
#include "headwise/tensor/slice.h"

namespace headwise {

void RunOnCpu(Context& context, const SequenceGateCall& call) {
  const int64_t heads = call.y.shape[1];
  const int32_t* starts = call.starts.Raw<int32_t>();
  const float* x = call.x.Raw<float>();
  float* y = call.y.Raw<float>();
  context.pool().ParallelFor(call.factors.shape[0], [&](int64_t b, int) {
    const float* factors = call.factors.Raw<float>() + b * heads;
    for (int64_t t = starts[b]; t < starts[b + 1]; ++t) {
      for (int64_t h = 0; h < heads; ++h) {
        y[t * heads + h] =
            x == nullptr ? factors[h] : factors[h] * x[t * heads + h];
      }
    }
  });
}

void RunOnCpu(Context& context, const ComposeCall& call) {
  constexpr int64_t kRows = 64;  // of a task
  const ComposeArgs& a = call.args;
  const int64_t heads = a.own.shape[2], rows = a.own.size() / heads;
  const int64_t dim = a.replacement ? a.share.shape[3] : 0;
  const auto one = [&](int64_t row, int64_t h) {
    const int64_t b = row / a.own.shape[1], t = row % a.own.shape[1];
    const int64_t i = row * heads + h;
    const float f =
        a.outer.Raw<float>()[b * a.outer.stride[0] + t * a.outer.stride[1] +
                             h * a.outer.stride[2]];
    const float product = f * a.own.Raw<float>()[i];
    a.product.Raw<float>()[i] = product;
    if (!a.replacement) return;
    const ConstTensorView& mu = a.replacement;
    const float share = product == 1 ? 0 : (1 - f) / (1 - product);
    const float* from = mu.Raw<float>() + b * mu.stride[0] + t * mu.stride[1] +
                        h * mu.stride[2];
    float* to = a.share.Raw<float>() + i * dim;
    for (int64_t e = 0; e < dim; ++e) to[e] = share * from[e * mu.stride[3]];
  };
  context.pool().ParallelFor(
      (rows + kRows - 1) / kRows, [&](int64_t task, int) {
        const int64_t end = std::min(rows, (task + 1) * kRows);
        for (int64_t row = task * kRows; row < end; ++row) {
          for (int64_t h = 0; h < heads; ++h) one(row, h);
        }
      });
}

// Most heads are found in the first rows, so one thread does.
void RunOnCpu(Context&, const ActiveCall& call) {
  const int64_t rows = call.gates.shape[0], heads = call.gates.shape[1];
  const float* gates = call.gates.Raw<float>();
  for (int64_t h = 0; h < heads; ++h) {
    int64_t t = 0;
    while (t < rows && gates[t * heads + h] == 0) ++t;
    call.active.Raw<int32_t>()[h] = t < rows ? 1 : 0;
  }
}

namespace {

Reason WhyNot(const GateCall& call) {
  const Device device =
      std::visit([](const auto& step) { return DeviceOf(step); }, call);
  return device.is_cpu() ? "" : "runs on the CPU only";
}

void Run(Context& context, const GateCall& call) {
  std::visit([&](const auto& step) { RunOnCpu(context, step); }, call);
}

}  // namespace

const Implementation<GateCall> kGateCpuF32 = {
    .name = "cpu.f32", .why_not = WhyNot, .run = Run};

}  // namespace headwise
