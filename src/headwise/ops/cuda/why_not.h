// What every operator on CUDA asks of its views.
#pragma once

#include <initializer_list>

#include "headwise/ops/implementation_list.h"
#include "headwise/tensor.h"

namespace headwise::cuda {

inline bool IsFloat(DType type) {
  return type == DType::kF32 || type == DType::kBF16 || type == DType::kF16;
}

// Why views of floats cannot be taken, the absent ones left out; "" where they
// can.
inline Reason WhyNotFloats(std::initializer_list<ConstTensorView> views) {
  for (const ConstTensorView& view : views) {
    if (!view) continue;
    if (!view.device.is_cuda()) return "runs on CUDA only";
    if (!IsFloat(view.type)) return "takes f32, bf16 and f16 only";
  }
  return "";
}

}  // namespace headwise::cuda
