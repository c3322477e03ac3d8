// A named weight, as the checkpoint holds it: mapped from a file or owned
// elsewhere. Layers read it through what they make of it (packed products).
#pragma once

#include <string>

#include "headwise/tensor.h"

namespace headwise {

struct Parameter {
  std::string name;  // the checkpoint's
  // f32, bf16 or f16; null: absent. Trainable ones are aligned, others lie
  // where the file has them (tensor/unaligned.h).
  ConstTensorView value;
  // Trainable parameters: of the value's shape, f32, added to by backwards.
  // Their value is f32 and may change between calls.
  TensorView gradient = {};
  // Within a MappedFile: pages may be given back (release.h).
  bool mapped = false;

  explicit operator bool() const { return static_cast<bool>(value); }
  bool trainable() const { return static_cast<bool>(gradient); }
};

// The values as f32, dense. Throws Error(kUnsupported) for other types.
Tensor ToF32(const Parameter& parameter);

}  // namespace headwise
