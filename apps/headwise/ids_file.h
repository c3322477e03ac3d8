// Token ids that come from a file instead of a text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headwise/format/safetensors.h"

namespace headwise {

// The rows of the tensor `ids` [B, N] without what the tensor `mask` [B, N], if
// there is one, leaves out (both integers). Throws Error(kInvalidArgument) for
// other shapes and types, for no rows, for padding between tokens, and for rows
// of fewer than `least` tokens.
std::vector<std::vector<int32_t>> ReadIdRows(const Safetensors& file,
                                             const char* ids, const char* mask,
                                             int64_t least);

// Where the rows of ReadIdRows lie in what they were read from; a text is one
// row, which is all there is.
struct IdPlaces {
  int64_t width = 0;           // 0: of the longest row
  std::vector<int64_t> first;  // of each row; empty: 0
};
// Of tensors from which ReadIdRows read.
IdPlaces ReadIdPlaces(const Safetensors& file, const char* ids,
                      const char* mask);

// A file's input_ids without what its attention_mask, if there is one, leaves
// out. Throws as ReadIdRows does, for rows of fewer than two tokens, and for
// ids outside the vocabulary of so many.
std::vector<std::vector<int32_t>> ReadIds(const std::string& path,
                                          int64_t vocabulary);

}  // namespace headwise
