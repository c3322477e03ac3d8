// By what heads are ranked. One list of names serves the command line, tables
// and JSON.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/context.h"
#include "headwise/head_ref.h"
#include "headwise/model/head_ref.h"
#include "headwise/rank.h"

namespace headwise {

// Throws Error(kInvalidArgument) for gates, which are learned, and for none.
void RequireRanking(std::span<const Criterion> criteria);

// ‖W_OV‖ or ‖W_QK‖ of every head, by the head_dim × head_dim cores.
std::vector<double> WeightNorms(Context& context, const Model& model,
                                std::span<const HeadRef> heads,
                                Criterion criterion);

}  // namespace headwise
