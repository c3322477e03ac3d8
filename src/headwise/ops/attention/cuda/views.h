// Views as the kernels take them: validated, and not refused by why_not.h.
#pragma once

#include "headwise/ops/attention/cuda/params.h"
#include "headwise/tensor.h"

namespace headwise::attention_cuda {

// Whether rows of two-byte elements can be moved 16 bytes at a time.
inline bool IsAligned(const ConstTensorView& view) {
  if (reinterpret_cast<uintptr_t>(view.data) % 16 != 0) return false;
  for (int axis = 0; axis < 3; ++axis) {
    if (view.shape[axis] > 1 && view.stride[axis] % 8 != 0) return false;
  }
  return true;
}

// [B, position, head, dim]; what the fast paths take is aligned to 16 bytes.
template <typename View>
Strided RowsView(const View& view) {
  if (!view) return {};
  return {const_cast<void*>(static_cast<const void*>(view.data)),
          view.stride[0], view.stride[1], view.stride[2]};
}

// [B, H, M], the last dense.
template <typename View>
RowResult ResultView(const View& view) {
  if (!view) return {};
  return {const_cast<void*>(static_cast<const void*>(view.data)),
          view.stride[0], view.stride[1]};
}

// The first three axes; missing ones have stride 0.
template <class T, class View>
View3<T> Strides(const View& view) {
  View3<T> result;
  if (!view) return result;
  result.data = view.template Raw<T>();
  for (int i = 0; i < 3 && i < view.rank; ++i) {
    result.stride[i] = view.stride[i];
  }
  return result;
}

}  // namespace headwise::attention_cuda
