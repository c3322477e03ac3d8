// Single elements of strided views as double, whatever their type: slow and
// plain, for the reference and for tests. Host views only.
#pragma once

#include <cstdint>

#include "headwise/tensor.h"
#include "headwise/tensor/encoding.h"
#include "headwise/tensor/half.h"

namespace headwise {

// Where element n of a view lies, in elements.
inline int64_t PlaceOf(const ConstTensorView& view, int64_t n) {
  int64_t at = 0;
  for (int i = view.rank - 1; i >= 0; --i) {
    at += n % view.shape[i] * view.stride[i];
    n /= view.shape[i];
  }
  return at;
}

template <typename Void, typename... Index>
int64_t OffsetOf(const BasicView<Void>& view, Index... index) {
  int64_t offset = 0;
  int axis = 0;
  ((offset += static_cast<int64_t>(index) * view.stride[axis++]), ...);
  return offset;
}

template <typename... Index>
double Read(const ConstTensorView& view, Index... index) {
  const int64_t at = OffsetOf(view, index...);
  switch (view.type) {
    case DType::kF32:
      return view.Raw<float>()[at];
    case DType::kF64:
      return view.Raw<double>()[at];
    case DType::kBF16:
      return FromBf16(view.Raw<uint16_t>()[at]);
    case DType::kF16:
      return FromF16(view.Raw<uint16_t>()[at]);
    case DType::kI32:
      return view.Raw<int32_t>()[at];
    case DType::kI64:
      return static_cast<double>(view.Raw<int64_t>()[at]);
    case DType::kI16:
      return view.Raw<int16_t>()[at];
    case DType::kI8:
      return view.Raw<int8_t>()[at];
    case DType::kU8:
    case DType::kBool:
      return view.Raw<uint8_t>()[at];
    default:
      return ReadInBlocks(view, at);
  }
}

// Of a plain type. A null view takes nothing.
template <typename... Index>
void Write(const TensorView& view, double value, Index... index) {
  if (!view) return;
  const int64_t at = OffsetOf(view, index...);
  switch (view.type) {
    case DType::kF32:
      view.Raw<float>()[at] = static_cast<float>(value);
      break;
    case DType::kF64:
      view.Raw<double>()[at] = value;
      break;
    case DType::kBF16:
      view.Raw<uint16_t>()[at] = ToBf16(static_cast<float>(value));
      break;
    case DType::kF16:
      view.Raw<uint16_t>()[at] = ToF16(static_cast<float>(value));
      break;
    case DType::kI32:
      view.Raw<int32_t>()[at] = static_cast<int32_t>(value);
      break;
    case DType::kI64:
      view.Raw<int64_t>()[at] = static_cast<int64_t>(value);
      break;
    case DType::kI16:
      view.Raw<int16_t>()[at] = static_cast<int16_t>(value);
      break;
    case DType::kI8:
      view.Raw<int8_t>()[at] = static_cast<int8_t>(value);
      break;
    case DType::kU8:
    case DType::kBool:
      view.Raw<uint8_t>()[at] = static_cast<uint8_t>(value);
      break;
    default:
      ThrowNotPlain(view.type);
  }
}

}  // namespace headwise
