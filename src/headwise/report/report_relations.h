// The parts of a report that tell how heads stand to each other: which matter
// more, which are alike, which feed which.
#pragma once

#include "headwise/base/json.h"
#include "headwise/heads.h"

namespace headwise {

// The report's "importance"; sets "importance" of every head in `heads`, which
// are those of the ranking, in its order.
Json ImportanceJson(const Ranking& ranking, Json& heads);

Json SimilarityJson(const HeadSimilarity& similarity);

// The edges that are most above their baseline.
Json CompositionJson(const Composition& composition);

}  // namespace headwise
