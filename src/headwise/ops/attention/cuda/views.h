// Views as the kernels take them; what they cannot take is said in an Error.
#pragma once

#include <string>
#include <utility>

#include "headwise/error.h"
#include "headwise/ops/attention/cuda/params.h"
#include "headwise/tensor.h"

namespace headwise::attention_cuda {

[[noreturn]] inline void ThrowUnsupported(const char* expected,
                                          std::string found, const char* hint) {
  throw Error(ErrorCode::kUnsupported,
              {"attention cuda", expected, std::move(found), hint});
}

// [B, position, head, dim]: copies and stores move 16 bytes at a time.
template <typename View>
Strided RowsView(const char* name, const View& view) {
  if (!view) return {};
  Strided result;
  result.data = const_cast<void*>(static_cast<const void*>(view.data));
  result.batch = view.stride[0];
  result.row = view.stride[1];
  result.head = view.stride[2];
  const bool aligned = reinterpret_cast<uintptr_t>(view.data) % 16 == 0 &&
                       (result.batch | result.row | result.head) % 8 == 0;
  if (!aligned) {
    ThrowUnsupported("16-byte aligned rows", name,
                     "strides must be multiples of 8 elements");
  }
  return result;
}

// [B, H, M], the last dense.
template <typename View>
RowResult ResultView(const char* name, const View& view) {
  if (!view) return {};
  if (view.stride[2] != 1 && view.shape[2] > 1) {
    ThrowUnsupported("dense rows", name, "the last stride must be 1");
  }
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
