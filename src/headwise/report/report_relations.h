// The parts of a report that tell how heads stand to each other: which matter
// more, which are alike, which feed which.
#pragma once

#include "headwise/base/json.h"
#include "headwise/heads/composition/composition.h"
#include "headwise/heads/importance/ranking.h"
#include "headwise/heads/similarity/similarity.h"

namespace headwise {

// The report's "importance"; sets "importance" of every head in `heads`, which
// are those of the ranking, in its order.
Json ImportanceJson(const Ranking& ranking, Json& heads);

Json SimilarityJson(const Similarity& similarity);

// The edges that are most above their baseline.
Json CompositionJson(const Composition& composition);

}  // namespace headwise
