// The reference: value by value, in double, any type, host memory.
// Door: implementation.h.
#include <string>

#include "headwise/base/rng.h"
#include "headwise/ops/dropout/implementation.h"
#include "headwise/tensor/element.h"

namespace headwise {
namespace {

Reason WhyNot(const DropoutCall& call) {
  return call.args.x.device.is_cpu() ? "" : "reads host memory only";
}

void Run(Context&, const DropoutCall& call) {
  const DropoutMask& mask = call.mask;
  const ConstTensorView& x = call.args.x;
  uint64_t n = 0;
  for (int64_t row = 0; row < x.shape[0]; ++row) {
    for (int64_t i = 0; i < x.shape[1]; ++i, ++n) {
      const bool kept =
          Philox(mask.seed, mask.stream, n / 4)[n % 4] >= LeastKept(mask);
      Write(call.args.y, kept ? Read(x, row, i) / (1.0 - mask.rate) : 0, row,
            i);
    }
  }
}

}  // namespace

const Implementation<DropoutCall> kDropoutReference = {
    .name = "reference", .why_not = WhyNot, .run = Run};

}  // namespace headwise
