// Token ids from files: checked before anything is counted or looked up by
// them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "headwise/tensor.h"

namespace headwise {

// Element `index` of a dense tensor of whole numbers (i64, i32, i16, i8, u8,
// bool). Throws Error(kInvalidArgument) for other types. where: the file, for
// messages.
int64_t IntegerAt(const ConstTensorView& view, int64_t index,
                  const std::string& where);

// The same as a token's id: nothing below 0 or beyond 32 bits, which would
// otherwise be another id.
int32_t TokenIdAt(const ConstTensorView& view, int64_t index,
                  const std::string& where);

// Throws Error(kInvalidArgument) naming the first id outside [0, vocabulary)
// and its place.
void RequireTokenIds(std::span<const int32_t> ids, int64_t vocabulary,
                     const std::string& where);

}  // namespace headwise
