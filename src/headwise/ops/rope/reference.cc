// The reference: turns in double, any type, host memory.
// Door: implementation.h.
#include <cmath>
#include <string>

#include "headwise/ops/ids.h"
#include "headwise/ops/rope/implementation.h"
#include "headwise/tensor/element.h"

namespace headwise {
namespace {

Reason WhyNot(const RopeCall& call) {
  return call.args.x.device.is_cpu() ? "" : "reads host memory only";
}

void Run(Context&, const RopeCall& call) {
  const RopeArgs& a = call.args;
  const TensorView& x = a.x;
  const int64_t half = a.frequencies.shape[0];
  const bool forward = call.problem.direction == RopeDirection::kForward;
  const auto [step, apart] = PlacesOf(call);
  const double scale = call.problem.scale;
  for (int64_t t = 0; t < x.shape[0]; ++t) {
    for (int64_t i = 0; i < half; ++i) {
      const double angle =
          static_cast<double>(IdAt(a.positions, t)) * Read(a.frequencies, i);
      const double cosine = scale * std::cos(angle);
      const double sine =
          scale * (forward ? std::sin(angle) : -std::sin(angle));
      for (int64_t h = 0; h < x.shape[1]; ++h) {
        const int64_t one = i * step, other = one + apart;
        const double low = Read(x, t, h, one), high = Read(x, t, h, other);
        Write(x, low * cosine - high * sine, t, h, one);
        Write(x, high * cosine + low * sine, t, h, other);
      }
    }
  }
}

}  // namespace

const Implementation<RopeCall> kRopeReference = {
    .name = "reference", .why_not = WhyNot, .run = Run};

}  // namespace headwise
