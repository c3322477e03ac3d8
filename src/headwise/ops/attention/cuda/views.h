// Views as the kernels take them: validated, and not refused by why_not.h.
#pragma once

#include "headwise/ops/attention/cuda/params.h"
#include "headwise/tensor.h"

namespace headwise::attention_cuda {

// [B, position, head, dim], rows aligned to 16 bytes.
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
  result.data = view.template As<T>();
  for (int i = 0; i < 3 && i < view.rank; ++i) {
    result.stride[i] = view.stride[i];
  }
  return result;
}

}  // namespace headwise::attention_cuda
