// Where chosen heads look on one text: a map as large as wanted, the keys that
// chosen queries look at most, and one strip of all keys. O(tokens) memory:
// long texts are pooled while they are computed. Time: the layers up to the
// last one that is asked for, and for each head about that of one layer more.
#pragma once

#include <vector>

#include "headwise/context.h"
#include "headwise/head_ref.h"
#include "headwise/model/head_ref.h"
#include "headwise/runtime/windows.h"
#include "headwise/show.h"

namespace headwise {

// One a head, in their order. Throws Error(kInvalidArgument) for a query that
// the text does not have, before anything is run, and Error(kCancelled) when
// stopped.
std::vector<MappedHead> MapHeads(Context& context, const Model& model,
                                 const TokenWindow& window,
                                 const std::vector<HeadRef>& heads,
                                 const ShowJob& job);

}  // namespace headwise
