// Ids of rows, classes or places: views i32 or i64 [N], as operators take them.
#pragma once

#include <cstdint>

#include "headwise/tensor.h"

namespace headwise {

// Throws Error(kInvalidArgument) naming the operator and the view unless it
// has `count` ids, one behind the other, on this device.
void CheckIds(const char* op, const char* name, const ConstTensorView& ids,
              int64_t count, Device device);

// One of them, in host memory.
inline int64_t IdAt(const ConstTensorView& ids, int64_t index) {
  return ids.type == DType::kI64 ? ids.Raw<int64_t>()[index]
                                 : ids.Raw<int32_t>()[index];
}

}  // namespace headwise
