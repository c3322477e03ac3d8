// Scratch on a context's device: contents undefined, given back when it dies,
// which is before the context does.
#pragma once

#include "headwise/backend/cpu/workspace.h"
#include "headwise/context.h"
#include "headwise/tensor.h"

namespace headwise {

class Temp {
 public:
  Temp() = default;
  Temp(Context& context, DType type, const Shape& shape);

  TensorView view() const { return view_; }
  explicit operator bool() const { return bool(view_); }

 private:
  Scratch host_;
  Tensor device_;
  TensorView view_;
};

}  // namespace headwise
