// Token ids that come from a file instead of a text.
#pragma once

#include <string>
#include <vector>

#include "headwise/runtime/windows.h"
#include "headwise/tensor.h"

namespace headwise {

// Element `index` of dense ids or of a mask. Throws Error(kInvalidArgument) for
// types that hold no integers.
int64_t IntegerAt(const ConstTensorView& view, int64_t index);

// Safetensors with input_ids [B, N] and perhaps attention_mask (both integers):
// one window a row, without its padding; rows longer than `context` (0: any
// length) are cut into several. Throws Error(kInvalidArgument) for other
// shapes and rows of fewer than two tokens.
std::vector<TokenWindow> ReadIds(const std::string& path, int64_t context);

}  // namespace headwise
