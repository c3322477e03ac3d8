// cpu.f32: a block of Philox for four values at a time.
// Door: ../implementation.h.
#include <algorithm>
#include <string>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/base/rng.h"
#include "headwise/ops/check_view.h"
#include "headwise/ops/dropout/implementation.h"

namespace headwise {
namespace {

constexpr int64_t kPerTask = 16384;  // values; a multiple of a block's four

Reason WhyNot(const DropoutCall& call) {
  const std::string no = WhyNotOnHost(DType::kF32, {call.args.x});
  if (!no.empty()) return no;
  for (const ConstTensorView& view :
       {call.args.x, ConstTensorView(call.args.y)}) {
    if (view.shape[0] > 1 && view.stride[0] != view.shape[1]) {
      return "takes rows that lie end to end";
    }
  }
  return "";
}

void Run(Context& context, const DropoutCall& call) {
  const DropoutMask& mask = call.mask;
  const float keep = 1.0f / (1.0f - mask.rate);
  const uint32_t least = LeastKept(mask);
  const int64_t count = call.args.x.size();
  const float* x = call.args.x.Raw<float>();
  float* y = call.args.y.Raw<float>();
  context.pool().ParallelFor(
      (count + kPerTask - 1) / kPerTask, [&](int64_t task, int) {
        const int64_t end = std::min(count, (task + 1) * kPerTask);
        for (int64_t i = task * kPerTask; i < end; i += 4) {
          const auto words =
              Philox(mask.seed, mask.stream, static_cast<uint64_t>(i / 4));
          const int64_t lanes = std::min<int64_t>(4, end - i);
          for (int64_t j = 0; j < lanes; ++j) {
            y[i + j] = words[j] >= least ? x[i + j] * keep : 0.0f;
          }
        }
      });
}

}  // namespace

const Implementation<DropoutCall> kDropoutCpuF32 = {
    .name = "cpu.f32", .why_not = WhyNot, .run = Run};

}  // namespace headwise
