// cpu.move: elements of one type as bytes, any strides, any address.
// Door: ../implementation.h.
#include <cstdint>
#include <cstring>
#include <string>

#include "headwise/ops/copy/cpu/moves.h"
#include "headwise/ops/copy/implementation.h"

namespace headwise {
namespace {

// Elements as words of their size.
template <typename Word>
void MoveWords(const char* from, int64_t from_step, char* to, int64_t to_step,
               int64_t count) {
  constexpr int64_t kSize = sizeof(Word);
  if (from_step == 1 && to_step == 1) {
    std::memcpy(to, from, count * kSize);
    return;
  }
  if (from_step == 0 && to_step == 1) {
    Word value;
    std::memcpy(&value, from, kSize);
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(to + i * kSize, &value, kSize);
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * to_step * kSize, from + i * from_step * kSize, kSize);
  }
}

Reason WhyNot(const CopyCall& call) {
  if (!IsOnHost(call)) return "runs on the CPU only";
  return call.kind == CopyKind::kFill || call.from.type == call.to.type
             ? ""
             : "does not change types";
}

void Run(Context& context, const CopyCall& call) {
  switch (ElementSize(call.to.type)) {
    case 1:
      return MoveAll(context, call, MoveWords<uint8_t>);
    case 2:
      return MoveAll(context, call, MoveWords<uint16_t>);
    case 4:
      return MoveAll(context, call, MoveWords<uint32_t>);
    default:
      return MoveAll(context, call, MoveWords<uint64_t>);
  }
}

}  // namespace

const Implementation<CopyCall> kCopyCpuMove = {
    .name = "cpu.move", .why_not = WhyNot, .run = Run};

}  // namespace headwise
