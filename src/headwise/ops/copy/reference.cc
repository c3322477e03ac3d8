// The reference: one element after the other, any type, host memory.
// Door: implementation.h.
#include <cstring>
#include <string>

#include "headwise/ops/check_view.h"
#include "headwise/ops/copy/implementation.h"
#include "headwise/tensor/element.h"
#include "headwise/tensor/encoding.h"

namespace headwise {
namespace {

Reason WhyNot(const CopyCall& call) {
  return IsOnHost(call) ? "" : "reads host memory only";
}

// One element, aligned, wherever it came from.
struct Cell {
  alignas(8) std::byte bytes[8] = {};
};

TensorView ViewOfCell(Cell& cell, DType type) { return {cell.bytes, type, {}}; }

bool IsInteger(DType type) {
  return type != DType::kF32 && type != DType::kF64 && type != DType::kBF16 &&
         type != DType::kF16;
}

int64_t ReadInteger(const ConstTensorView& view) {
  if (view.type == DType::kI64) return *view.Raw<int64_t>();
  return static_cast<int64_t>(Read(view, 0));
}

void WriteInteger(const TensorView& view, int64_t value) {
  std::memcpy(view.data, &value, ElementSize(view.type));  // the low bytes
}

void Convert(const char* from, DType from_type, char* to, DType to_type) {
  if (from_type == to_type) {
    std::memcpy(to, from, ElementSize(to_type));
    return;
  }
  Cell in, out;
  std::memcpy(in.bytes, from, ElementSize(from_type));
  const ConstTensorView source = ViewOfCell(in, from_type);
  const TensorView target = ViewOfCell(out, to_type);
  if (IsInteger(from_type) && IsInteger(to_type)) {
    WriteInteger(target, ReadInteger(source));
  } else {
    Write(target, Read(source, 0), 0);
  }
  std::memcpy(to, out.bytes, ElementSize(to_type));
}

void CopyAll(const ConstTensorView& from, const TensorView& to) {
  for (int64_t n = 0; n < to.size(); ++n) {
    const int64_t place = PlaceOf(from, n);
    const TensorView out = Moved(to, PlaceOf(to, n));
    char* const target = static_cast<char*>(out.data);
    if (!EncodingOf(from.type).plain()) {
      const float value = ReadInBlocks(from, place);
      Convert(reinterpret_cast<const char*>(&value), DType::kF32, target,
              out.type);
      continue;
    }
    const ConstTensorView in = Moved(from, place);
    Convert(static_cast<const char*>(in.data), in.type, target, out.type);
  }
}

void Run(Context&, const CopyCall& call) {
  const int32_t* index = call.index.Raw<int32_t>();
  switch (call.kind) {
    case CopyKind::kCopy:
      return CopyAll(call.from, call.to);
    case CopyKind::kFill: {
      Cell cell;
      Write(ViewOfCell(cell, call.to.type), call.value, 0);
      return CopyAll(
          Broadcast(ViewOfCell(cell, call.to.type), ShapeOf(call.to)), call.to);
    }
    case CopyKind::kGather:
      for (int64_t r = 0; r < call.to.shape[0]; ++r) {
        CopyAll(At(call.from, 0, index[r]), At(call.to, 0, r));
      }
      return;
    case CopyKind::kScatter:
      for (int64_t r = 0; r < call.from.shape[0]; ++r) {
        CopyAll(At(call.from, 0, r), At(call.to, 0, index[r]));
      }
      return;
    case CopyKind::kAppend:
      for (int64_t b = 0; b < call.to.shape[0]; ++b) {
        const int64_t end = index[b] + call.from.shape[1];
        CopyAll(At(call.from, 0, b), Rows(At(call.to, 0, b), index[b], end));
      }
      return;
  }
}

}  // namespace

const Implementation<CopyCall> kCopyReference = {
    .name = "reference", .why_not = WhyNot, .run = Run};

}  // namespace headwise
