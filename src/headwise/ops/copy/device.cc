// device: what the device's own memory copies can do, one for each run of
// elements that lie together. Door: implementation.h.
#include <array>
#include <cmath>
#include <string>

#include "headwise/backend/device_backend.h"
#include "headwise/ops/copy/implementation.h"
#include "headwise/tensor/walk.h"

namespace headwise {
namespace {

bool IsZero(double value) { return value == 0 && !std::signbit(value); }

Reason WhyNot(const CopyCall& call) {
  if (IsOnHost(call)) return "serves devices only";
  if (call.kind == CopyKind::kFill) {
    if (!IsZero(call.value)) return "fills with 0 only";
    return Walk<1>({call.to}).step()[0] == 1
               ? ""
               : "fills elements that lie together only";
  }
  if (call.kind != CopyKind::kCopy) return "knows no rows";
  if (call.from.type != call.to.type) return "does not change types";
  return Walk<2>({call.from, call.to}).step() == std::array<int64_t, 2>{1, 1}
             ? ""
             : "copies elements that lie together only";
}

void Run(Context& context, const CopyCall& call) {
  DeviceBackend& backend = *context.backend();
  const bool fill = call.kind == CopyKind::kFill;
  const Walk<2> walk({fill ? ConstTensorView(call.to) : call.from, call.to});
  const int64_t size = ElementSize(call.to.type);
  walk.ForRuns(0, walk.size(), [&](const auto& places, int64_t count) {
    char* to = static_cast<char*>(call.to.data) + places[1] * size;
    if (fill) return backend.Zero(to, count * size);
    const char* from = static_cast<const char*>(call.from.data);
    backend.Copy(to, from + places[0] * size, count * size);
  });
}

}  // namespace

const Implementation<CopyCall> kCopyDevice = {
    .name = "device", .why_not = WhyNot, .run = Run};

}  // namespace headwise
