// Token ids that come from a file instead of a text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headwise/format/safetensors.h"
#include "headwise/runtime/windows.h"

namespace headwise {

// The rows of the tensor `ids` [B, N] without what the tensor `mask` [B, N], if
// there is one, leaves out (both integers). Throws Error(kInvalidArgument) for
// other shapes and types, for no rows, for padding between tokens, and for rows
// of fewer than `least` tokens.
std::vector<std::vector<int32_t>> ReadIdRows(const Safetensors& file,
                                             const char* ids, const char* mask,
                                             int64_t least);

// A file's input_ids and perhaps attention_mask: one window a row; rows longer
// than `context` (0: any length) are cut into several. Throws as ReadIdRows
// does, for rows of fewer than two tokens.
std::vector<TokenWindow> ReadIds(const std::string& path, int64_t context);

}  // namespace headwise
