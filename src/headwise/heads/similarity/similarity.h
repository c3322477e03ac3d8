// Which heads resemble which: by where they look (pattern), by what they give
// (output) and by what they move (content); groups of like heads and a map.
//
//   pattern  mean over rows of the Bhattacharyya coefficient Σ_j √(A^a A^b),
//            all rows; exact Jensen–Shannon divergence on sampled rows
//   output   linear CKA of the heads' outputs z on sampled tokens
//   content  principal angles between what W_V reads, and what W_O writes
#pragma once

#include <span>

#include "headwise/base/json.h"
#include "headwise/context.h"
#include "headwise/model/model.h"
#include "headwise/runtime/text_pass.h"
#include "headwise/runtime/windows.h"
#include "headwise/similar.h"

namespace headwise {

// Of ranks, the first gets the result, the others the names of heads. Throws
// Error(kInvalidArgument) for windows in which no row counts, and
// Error(kCancelled) when stopped.
HeadSimilarity CompareHeads(Context& context, const Model& model,
                            std::span<const TokenWindow> windows,
                            const SimilarityJob& job = {},
                            const PassOptions& options = {});

// "headwise.similarity/1". Matrices rounded to 4 digits, null for NaN.
Json ToJson(const HeadSimilarity& similarity);

}  // namespace headwise
