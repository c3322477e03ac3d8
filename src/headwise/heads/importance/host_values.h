// What the host goes through number by number, of tensors on any device.
#pragma once

#include "headwise/context.h"
#include "headwise/ops/check_view.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"

namespace headwise {

// The values as dense f32 on the host, when they are there: where they lie, if
// they are that, else a copy, which `copy` keeps.
inline ConstTensorView HostF32(Context& context, const ConstTensorView& from,
                               Tensor& copy) {
  const bool fits =
      from.device.is_cpu() && from.type == DType::kF32 && IsDense(from);
  if (!from || fits) return from;
  copy = Tensor(DType::kF32, ShapeOf(from));
  Copy(context, from, copy.view());
  if (!from.device.is_cpu()) context.Synchronize();
  return copy.view();
}

}  // namespace headwise
