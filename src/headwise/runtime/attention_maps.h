// Where chosen heads look on one text: a map as large as wanted, the keys that
// chosen queries look at most, and one strip of all keys. O(tokens) memory:
// long texts are pooled while they are computed. Time: the layers up to the
// last one that is asked for, and for each head about that of one layer more.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <vector>

#include "headwise/base/progress.h"
#include "headwise/context.h"
#include "headwise/head_ref.h"
#include "headwise/model/head_ref.h"
#include "headwise/runtime/windows.h"
#include "headwise/show.h"

namespace headwise {

struct MapOptions {
  int64_t most_cells = 64;  // rows and columns of a map, at most
  int64_t top = 5;          // keys of each query
  // Queries whose keys are wanted, at most; evenly spread over the text.
  int64_t most_queries = 24;
  std::optional<int64_t> query;  // this one alone; the strip is its row
  ProgressCallback progress = {};
  std::stop_token stop = {};
};

// One a head, in their order. Throws Error(kInvalidArgument) for a query that
// the text does not have, before anything is run, and Error(kCancelled) when
// stopped.
std::vector<MappedHead> MapHeads(Context& context, const Model& model,
                                 const TokenWindow& window,
                                 const std::vector<HeadRef>& heads,
                                 const MapOptions& options);

}  // namespace headwise
