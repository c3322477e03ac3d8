// Where a checkpoint stores the weights of one head, whatever the order of the
// columns: queries, keys and values may stand side by side, head by head, or
// each in a tensor of its own.
#pragma once

#include <cstdint>
#include <vector>

#include "headwise/nn/attention_layer.h"
#include "headwise/nn/linear.h"

namespace headwise {

// Rows [begin, end) of each block of a tensor [blocks · n, in], side by side:
// of queries with their gates beside them, head by head, the queries. The bias
// may be absent. Throws Error(kCorrupt) for a tensor of other blocks.
struct BlockRows {
  int64_t begin = 0, end = 0;
};
std::vector<Linear::Part> EachOf(const Parameter& weight, const Parameter& bias,
                                 int64_t blocks, BlockRows rows);

// Queries, keys and values side by side, as an AttentionLayer takes them, of a
// tensor [rows, in] that holds them group by group: the queries of the group,
// its key, its value. The bias may be absent. Throws Error(kCorrupt) for
// another number of rows.
Linear ByGroups(const Parameter& weight, const Parameter& bias, int64_t heads,
                int64_t groups, int64_t head_dim);

enum class HeadMatrix : uint8_t { kQuery, kKey, kValue, kOutput };

// Heads, or groups of heads that share keys and values, of a matrix.
int64_t CountOf(const AttentionLayer& layer, HeadMatrix matrix);

// The weights, and but for the output the biases, of heads or groups
// [begin, end): those behind latents, where keys and values come of them. None
// of the output where the layer has none.
std::vector<StoredSlice> SlicesOf(const AttentionLayer& layer,
                                  HeadMatrix matrix, int64_t begin,
                                  int64_t end);

// The matrix of one head or group as a layer of its own.
Linear LinearOf(const AttentionLayer& layer, HeadMatrix matrix, int64_t index);

// Queries, keys or values of all heads as one matrix.
StoredMatrix StoredOf(const AttentionLayer& layer, HeadMatrix matrix);

// All that is one head's own: its queries, its share of the output, its learned
// gate and span, its sink logit, its output gate. Keys and values are its
// group's.
std::vector<StoredSlice> SlicesOfHead(const AttentionLayer& layer,
                                      int64_t head);
std::vector<StoredSlice> SlicesOfGroup(const AttentionLayer& layer,
                                       int64_t group);

}  // namespace headwise
