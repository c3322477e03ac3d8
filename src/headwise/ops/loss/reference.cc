// The reference: the formula of loss.h in double, any type, host memory.
// Door: implementation.h.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "headwise/ops/ids.h"
#include "headwise/ops/loss/implementation.h"
#include "headwise/tensor/element.h"

namespace headwise {
namespace {

Reason WhyNot(const CrossEntropyCall& call) {
  return call.args.logits.device.is_cpu() ? "" : "reads host memory only";
}

void RunRow(const CrossEntropyCall& call, int64_t row) {
  const CrossEntropyArgs& a = call.args;
  const int64_t classes = a.logits.shape[1], target = IdAt(a.targets, row);
  if (target == kIgnoreTarget) {
    Write(a.losses, 0, row);
    for (int64_t c = 0; c < classes; ++c) Write(a.dlogits, 0, row, c);
    return;
  }
  std::vector<double> z(classes);  // dlogits may be logits
  for (int64_t c = 0; c < classes; ++c) z[c] = Read(a.logits, row, c);
  const double smoothing = call.problem.smoothing;
  const double uniform = smoothing / static_cast<double>(classes);
  const double top = *std::max_element(z.begin(), z.end());
  double sum = 0, total = 0;
  for (const double value : z) {
    sum += std::exp(value - top);
    total += value;
  }
  // Where nothing is smoothed, a class that is shut out by −∞ does not count.
  Write(a.losses,
        top + std::log(sum) - (1 - smoothing) * z[target] -
            (smoothing > 0 ? uniform * total : 0),
        row);
  for (int64_t c = 0; c < classes; ++c) {
    const double wanted = uniform + (c == target ? 1 - smoothing : 0);
    const double share = std::exp(z[c] - top) / sum;
    Write(a.dlogits, call.problem.scale * (share - wanted), row, c);
  }
}

void Run(Context&, const CrossEntropyCall& call) {
  for (int64_t row = 0; row < call.args.logits.shape[0]; ++row) {
    RunRow(call, row);
  }
}

}  // namespace

const Implementation<CrossEntropyCall> kCrossEntropyReference = {
    .name = "reference", .why_not = WhyNot, .run = Run};

}  // namespace headwise
