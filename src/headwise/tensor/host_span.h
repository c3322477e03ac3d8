// Host memory as a span: the way back from ViewOf (slice.h), for what lies on
// the host by purpose, such as tokens.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "headwise/error.h"
#include "headwise/tensor.h"
#include "headwise/tensor/slice.h"

namespace headwise {

// The elements in order. Throws Error(kInvalidArgument) for a view that is not
// dense, of another type, or on another device.
template <typename T>
std::span<const T> HostSpan(const ConstTensorView& view) {
  const bool fits =
      view.type == TypeOf<T>() && view.device.is_cpu() && IsDense(view);
  if (!fits) {
    throw Error(ErrorCode::kInvalidArgument,
                {"host memory", std::string("dense ") + Name(TypeOf<T>()),
                 ToString(view), ""});
  }
  return {view.As<T>(), static_cast<size_t>(view ? view.size() : 0)};
}

}  // namespace headwise
