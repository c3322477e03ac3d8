// cpu.cast: between f32 and the two halves. Door: ../implementation.h.
#include <cstdint>
#include <cstring>
#include <string>

#include "headwise/ops/copy/cpu/moves.h"
#include "headwise/ops/copy/implementation.h"
#include "headwise/tensor/half.h"
#include "headwise/tensor/unaligned.h"

namespace headwise {
namespace {

struct F32 {
  using Stored = float;
  static float Load(float x) { return x; }
  static float Store(float x) { return x; }
};
struct Bf16 {
  using Stored = uint16_t;
  static float Load(uint16_t x) { return FromBf16(x); }
  static uint16_t Store(float x) { return ToBf16(x); }
};
struct F16 {
  using Stored = uint16_t;
  static float Load(uint16_t x) { return FromF16(x); }
  static uint16_t Store(float x) { return ToF16(x); }
};

template <typename From, typename To>
void CastRun(const char* from, int64_t from_step, char* to, int64_t to_step,
             int64_t count) {
  using In = typename From::Stored;
  using Out = typename To::Stored;
  const auto one = [&](int64_t in, int64_t out) {
    const Out value = To::Store(From::Load(LoadUnaligned<In>(from, in)));
    std::memcpy(to + out * static_cast<int64_t>(sizeof(Out)), &value,
                sizeof(Out));
  };
  // Apart, so that the usual case becomes vectors.
  if (from_step == 1 && to_step == 1) {
    for (int64_t i = 0; i < count; ++i) one(i, i);
  } else {
    for (int64_t i = 0; i < count; ++i) one(i * from_step, i * to_step);
  }
}

template <typename From>
MoveRun ChooseTo(DType to) {
  switch (to) {
    case DType::kF32:
      return CastRun<From, F32>;
    case DType::kBF16:
      return CastRun<From, Bf16>;
    case DType::kF16:
      return CastRun<From, F16>;
    default:
      return nullptr;
  }
}

MoveRun ChooseRun(DType from, DType to) {
  switch (from) {
    case DType::kF32:
      return ChooseTo<F32>(to);
    case DType::kBF16:
      return ChooseTo<Bf16>(to);
    case DType::kF16:
      return ChooseTo<F16>(to);
    default:
      return nullptr;
  }
}

Reason WhyNot(const CopyCall& call) {
  if (!IsOnHost(call)) return "runs on the CPU only";
  if (call.kind == CopyKind::kFill || call.from.type == call.to.type) {
    return "changes types only";
  }
  if (ChooseRun(call.from.type, call.to.type) != nullptr) return "";
  return "knows f32, bf16 and f16 only";
}

void Run(Context& context, const CopyCall& call) {
  MoveAll(context, call, ChooseRun(call.from.type, call.to.type));
}

}  // namespace

const Implementation<CopyCall> kCopyCpuCast = {
    .name = "cpu.cast", .why_not = WhyNot, .run = Run};

}  // namespace headwise
