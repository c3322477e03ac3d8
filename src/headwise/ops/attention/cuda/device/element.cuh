// One element of a view, whatever its type.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "headwise/ops/attention/cuda/params.h"

namespace headwise::attention_cuda {

__device__ inline float LoadElement(const void* data, int64_t at,
                                    Element element) {
  switch (element) {
    case Element::kF32:
      return static_cast<const float*>(data)[at];
    case Element::kF16:
      return __half2float(static_cast<const __half*>(data)[at]);
    default:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[at]);
  }
}

__device__ inline void StoreElement(void* data, int64_t at, Element element,
                                    float value) {
  switch (element) {
    case Element::kF32:
      static_cast<float*>(data)[at] = value;
      break;
    case Element::kF16:
      static_cast<__half*>(data)[at] = __float2half_rn(value);
      break;
    default:
      static_cast<__nv_bfloat16*>(data)[at] = __float2bfloat16_rn(value);
  }
}

}  // namespace headwise::attention_cuda
