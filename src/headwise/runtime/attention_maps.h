// Where chosen heads look on one text: a map as large as wanted, the keys each
// query looks at most, and one strip of all keys. O(tokens) memory: long texts
// are pooled while they are computed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "headwise/attention.h"
#include "headwise/context.h"
#include "headwise/model/head_ref.h"
#include "headwise/runtime/windows.h"

namespace headwise {

struct MapOptions {
  int64_t most_cells = 64;       // rows and columns of a map, at most
  int64_t top = 5;               // keys of each query
  std::optional<int64_t> query;  // the strip is this query's row
};

struct MappedHead {
  HeadRef head;
  int64_t queries = 0;  // tokens
  int64_t keys = 0;
  // Shares [rows, columns]; each the largest of the queries and keys that fall
  // into it. rows = queries and columns = keys where they fit: the map itself.
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<float> values;
  // Per query the keys it looks at most, largest first; −1 past the visible.
  int64_t top = 0;
  std::vector<int32_t> top_keys;  // [queries, top]
  std::vector<float> top_shares;
  // [keys]: the query's row, or without one the mean share that each key gets
  // of the queries that see it.
  std::vector<float> strip;

  // What the queries may look at.
  AttentionMask mask;

  bool pooled() const { return rows < queries || columns < keys; }
  // Whether a query of the row sees a key of the column.
  bool Sees(int64_t row, int64_t column) const;
};

// One a head, in their order. Throws Error(kInvalidArgument) for a query that
// the text does not have.
std::vector<MappedHead> MapHeads(Context& context, const Model& model,
                                 const TokenWindow& window,
                                 const std::vector<HeadRef>& heads,
                                 const MapOptions& options);

}  // namespace headwise
