// Tables of learned spans on the CPU, in f64, a task a head. Door: steps.h.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/ops/gate/cpu/steps.h"

namespace headwise {
namespace {

// z, in positions.
double Reach(const SpanCall& call, int64_t head) {
  return static_cast<double>(call.problem.limit) *
         std::clamp(call.spans.Raw<float>()[head], 0.0f, 1.0f);
}

void Forward(const SpanCall& call, int64_t head) {
  const int64_t reach = call.problem.reach;
  const double ramp = static_cast<double>(call.problem.ramp);
  const double z = Reach(call, head);
  float* row = call.table->Raw<float>() + head * (2 * reach + 1);
  for (int64_t d = 0; d <= reach; ++d) {
    const double m = (ramp + z - static_cast<double>(d)) / ramp;
    const float value = m > 0 ? static_cast<float>(std::log(std::min(m, 1.0)))
                              : -std::numeric_limits<float>::infinity();
    row[reach - d] = row[reach + d] = value;
  }
}

void Backward(const SpanCall& call, int64_t head) {
  const int64_t reach = call.problem.reach, width = 2 * reach + 1;
  const double ramp = static_cast<double>(call.problem.ramp);
  const double z = Reach(call, head);
  const float* dtable = call.grads->dtable.Raw<float>() + head * width;
  double sum = 0;
  for (int64_t i = 0; i < width; ++i) {
    const double left = ramp + z - static_cast<double>(std::abs(i - reach));
    if (left <= 0 || left >= ramp) continue;
    sum += dtable[i] / left;
  }
  sum *= static_cast<double>(call.problem.limit);
  sum += call.grads->penalty;
  call.grads->dspans.Raw<float>()[head] += static_cast<float>(sum);
}

}  // namespace

void RunOnCpu(Context& context, const SpanCall& call) {
  context.pool().ParallelFor(call.spans.shape[0], [&](int64_t head, int) {
    call.grads == nullptr ? Forward(call, head) : Backward(call, head);
  });
}

}  // namespace headwise
