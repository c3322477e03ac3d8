// Where a checkpoint stores the weights of one head, whatever the order of the
// columns: queries, keys and values may stand side by side, head by head, or
// each in a tensor of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "headwise/nn/attention_layer.h"
#include "headwise/nn/linear.h"

namespace headwise {

enum class HeadMatrix : uint8_t { kQuery, kKey, kValue, kOutput };

// Heads, or groups of heads that share keys and values, of a matrix.
int64_t CountOf(const AttentionLayer& layer, HeadMatrix matrix);

// The weights, and but for the output the biases, of heads or groups
// [begin, end). None of the output where the layer has none.
std::vector<StoredSlice> SlicesOf(const AttentionLayer& layer,
                                  HeadMatrix matrix, int64_t begin,
                                  int64_t end);

// All that is one head's own: its queries, its share of the output, its learned
// gate and span. Keys and values are its group's.
std::vector<StoredSlice> SlicesOfHead(const AttentionLayer& layer,
                                      int64_t head);
std::vector<StoredSlice> SlicesOfGroup(const AttentionLayer& layer,
                                       int64_t group);

}  // namespace headwise
