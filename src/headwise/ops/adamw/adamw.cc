// AdamW. Door: adamw.h.
#include "headwise/ops/adamw/adamw.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "headwise/backend/cpu/thread_pool.h"

namespace headwise {
namespace {

constexpr int64_t kPerTask = 32768;  // values

}  // namespace

void AdamW(Context& context, const AdamWProblem& problem,
           const AdamWArgs& args) {
  const auto t = static_cast<double>(problem.step);
  const float unbias1 =
      static_cast<float>(1 / (1 - std::pow(double{problem.beta1}, t)));
  const float unbias2 =
      static_cast<float>(1 / (1 - std::pow(double{problem.beta2}, t)));
  const float beta1 = problem.beta1, beta2 = problem.beta2;
  const float rate = problem.rate, epsilon = problem.epsilon;
  const float keep = 1 - rate * problem.decay;
  const float scale = problem.gradient_scale;
  context.pool().ParallelFor(
      (args.count + kPerTask - 1) / kPerTask, [&](int64_t task, int) {
        const int64_t end = std::min(args.count, (task + 1) * kPerTask);
        float* value = args.value;
        float* first = args.first;
        float* second = args.second;
        for (int64_t i = task * kPerTask; i < end; ++i) {
          const float g = args.gradient[i] * scale;
          first[i] = beta1 * first[i] + (1 - beta1) * g;
          second[i] = beta2 * second[i] + (1 - beta2) * g * g;
          const float down = std::sqrt(second[i] * unbias2) + epsilon;
          value[i] = keep * value[i] - rate * (first[i] * unbias1) / down;
        }
      });
}

double SumOfSquares(Context& context, std::span<const float> x) {
  const int64_t count = static_cast<int64_t>(x.size());
  const int64_t tasks = (count + kPerTask - 1) / kPerTask;
  std::vector<double> sums(static_cast<size_t>(tasks));
  context.pool().ParallelFor(tasks, [&](int64_t task, int) {
    const int64_t end = std::min(count, (task + 1) * kPerTask);
    double sum = 0;
    for (int64_t i = task * kPerTask; i < end; ++i) {
      sum += static_cast<double>(x[i]) * x[i];
    }
    sums[task] = sum;
  });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace headwise
