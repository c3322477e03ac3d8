// Parameters as f32. Door: parameter.h.
#include "headwise/nn/parameter.h"

#include <cstring>

#include "headwise/error.h"
#include "headwise/tensor/half.h"
#include "headwise/tensor/unaligned.h"

namespace headwise {
namespace {

Tensor DenseLike(const ConstTensorView& view) {
  switch (view.rank) {
    case 1:
      return Tensor(DType::kF32, {view.shape[0]});
    case 2:
      return Tensor(DType::kF32, {view.shape[0], view.shape[1]});
    default:
      throw Error(ErrorCode::kUnsupported,
                  {"parameter", "a vector or a matrix", ToString(view), ""});
  }
}

}  // namespace

Tensor ToF32(const Parameter& parameter) {
  const ConstTensorView& from = parameter.value;
  Tensor tensor = DenseLike(from);
  float* to = tensor.As<float>();
  const int64_t rows = from.rank == 2 ? from.shape[0] : 1;
  const int64_t columns = from.shape[from.rank - 1];
  const int64_t stride = from.rank == 2 ? from.stride[0] : columns;
  for (int64_t r = 0; r < rows; ++r, to += columns) {
    switch (from.type) {
      case DType::kF32:
        std::memcpy(to,
                    static_cast<const char*>(from.data) +
                        r * stride * static_cast<int64_t>(sizeof(float)),
                    columns * sizeof(float));
        break;
      case DType::kBF16:
        for (int64_t c = 0; c < columns; ++c) {
          to[c] = FromBf16(LoadUnaligned<uint16_t>(from.data, r * stride + c));
        }
        break;
      case DType::kF16:
        for (int64_t c = 0; c < columns; ++c) {
          to[c] = FromF16(LoadUnaligned<uint16_t>(from.data, r * stride + c));
        }
        break;
      default:
        throw Error(ErrorCode::kUnsupported,
                    {parameter.name, "f32, bf16 or f16", Name(from.type), ""});
    }
  }
  return tensor;
}

}  // namespace headwise
