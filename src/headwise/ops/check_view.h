// What every operator asks of a view before it runs.
#pragma once

#include <string>

#include "headwise/tensor.h"

namespace headwise {

// Throws Error(kInvalidArgument) naming the operator and the view, unless it is
// given, of this type, shape and device, with a last stride of 1. A view of
// nothing may be null. The type is plain: operators do not read blocks.
void CheckView(const char* op, const char* name, const ConstTensorView& view,
               DType type, const Shape& shape, Device device);

// The same of a view whose elements lie one after the other.
void CheckDense(const char* op, const char* name, const ConstTensorView& view,
                DType type, const Shape& shape, Device device);

// Throws Error(kInvalidArgument).
[[noreturn]] void Refuse(const char* op, std::string expected,
                         std::string found);

// The sizes of a view.
template <typename Void>
Shape ShapeOf(const BasicView<Void>& view) {
  return std::span<const int64_t>(view.shape.data(),
                                  static_cast<size_t>(view.rank));
}

// Why an implementation on the host that takes one type cannot take these, the
// absent ones left out: "" where it can.
std::string WhyNotOnHost(DType type,
                         std::initializer_list<ConstTensorView> views);

}  // namespace headwise
