// Numbers where a file puts them: safetensors does not align its tensors.
#pragma once

#include <cstdint>
#include <cstring>

#include "headwise/tensor.h"
#include "headwise/tensor/encoding.h"

namespace headwise {

// Number `index` from `data` on, which may be any address.
template <typename T>
T LoadUnaligned(const void* data, int64_t index) {
  T value;
  std::memcpy(
      &value,
      static_cast<const char*>(data) + index * static_cast<int64_t>(sizeof(T)),
      sizeof(T));
  return value;
}

// Whether the view's numbers may be read where they lie, through pointers.
// Blocks are read as bytes, which lie anywhere.
inline bool IsAligned(const ConstTensorView& view) {
  const ElementEncoding& encoding = EncodingOf(view.type);
  const auto unit =
      static_cast<uintptr_t>(encoding.plain() ? encoding.bytes : 1);
  return reinterpret_cast<uintptr_t>(view.data) % unit == 0;
}

}  // namespace headwise
