// A ranking for machines: docs/ranking.schema.json describes it.
#pragma once

#include "headwise/base/json.h"
#include "headwise/heads/importance/interval_json.h"
#include "headwise/heads/importance/ranking.h"

namespace headwise {

// {"format": "headwise.ranking/1", "loss": …, "heads": [{"layer", "head",
// "kind", "class", "criteria": {name: {"value", "low", "high"}}}], …}. Ends of
// intervals that are not known are null.
Json ToJson(const Ranking& ranking);

}  // namespace headwise
