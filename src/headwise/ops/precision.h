// Products in a type that is asked for, whatever their operands are stored in.
#pragma once

#include <string>

#include "headwise/ops/implementation_list.h"
#include "headwise/tensor.h"
#include "headwise/tensor/half.h"

namespace headwise {

// "stored", "bf16", "f16"
inline const char* Name(Precision precision) {
  switch (precision) {
    case Precision::kBF16:
      return "bf16";
    case Precision::kF16:
      return "f16";
    case Precision::kStored:
      break;
  }
  return "stored";
}

// An operand's number as a product of a precision reads it: rounded to nearest
// even.
inline float RoundedTo(Precision precision, float value) {
  switch (precision) {
    case Precision::kBF16:
      return FromBf16(ToBf16(value));
    case Precision::kF16:
      return FromF16(ToF16(value));
    case Precision::kStored:
      break;
  }
  return value;
}

// Why an implementation that multiplies in the type of its operands, `stored`,
// does not take a precision; "" where it does.
inline Reason WhyNotPrecision(Precision asked, DType stored) {
  const bool own = asked == Precision::kStored ||
                   (asked == Precision::kBF16 && stored == DType::kBF16) ||
                   (asked == Precision::kF16 && stored == DType::kF16);
  if (own) return "";
  return std::string("has no products in ") + Name(asked) + " of " +
         Name(stored) + " operands";
}

}  // namespace headwise
