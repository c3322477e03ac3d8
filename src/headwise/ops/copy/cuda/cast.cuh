// One element of any type into another, as copy.h says.
#pragma once

#include "headwise/ops/cuda/kernel.cuh"
#include "headwise/tensor.h"

namespace headwise {

inline __host__ __device__ bool IsFloatType(DType type) {
  return type == DType::kF32 || type == DType::kF64 || type == DType::kBF16 ||
         type == DType::kF16;
}

__device__ inline int64_t LoadInteger(const void* data, DType type,
                                      int64_t at) {
  switch (type) {
    case DType::kI64:
      return static_cast<const int64_t*>(data)[at];
    case DType::kI32:
      return static_cast<const int32_t*>(data)[at];
    case DType::kI16:
      return static_cast<const int16_t*>(data)[at];
    case DType::kI8:
      return static_cast<const int8_t*>(data)[at];
    default:  // kU8, kBool
      return static_cast<const uint8_t*>(data)[at];
  }
}

__device__ inline void StoreInteger(void* data, DType type, int64_t at,
                                    int64_t value) {
  switch (type) {
    case DType::kI64:
      static_cast<int64_t*>(data)[at] = value;
      break;
    case DType::kI32:
      static_cast<int32_t*>(data)[at] = static_cast<int32_t>(value);
      break;
    case DType::kI16:
      static_cast<int16_t*>(data)[at] = static_cast<int16_t>(value);
      break;
    default:  // kI8, kU8: the low byte
      static_cast<uint8_t*>(data)[at] = static_cast<uint8_t>(value);
  }
}

__device__ inline double LoadDouble(const void* data, DType type, int64_t at) {
  switch (type) {
    case DType::kF32:
      return static_cast<const float*>(data)[at];
    case DType::kF64:
      return static_cast<const double*>(data)[at];
    case DType::kBF16:
      return cuda::ToFloat(static_cast<const __nv_bfloat16*>(data)[at]);
    case DType::kF16:
      return cuda::ToFloat(static_cast<const __half*>(data)[at]);
    default:
      return static_cast<double>(LoadInteger(data, type, at));
  }
}

__device__ inline void StoreDouble(void* data, DType type, int64_t at,
                                   double value) {
  switch (type) {
    case DType::kF64:
      static_cast<double*>(data)[at] = value;
      break;
    case DType::kBF16:
      static_cast<__nv_bfloat16*>(data)[at] =
          cuda::FromFloat<__nv_bfloat16>(static_cast<float>(value));
      break;
    case DType::kF16:
      static_cast<__half*>(data)[at] =
          cuda::FromFloat<__half>(static_cast<float>(value));
      break;
    default:  // kF32
      static_cast<float*>(data)[at] = static_cast<float>(value);
  }
}

}  // namespace headwise
