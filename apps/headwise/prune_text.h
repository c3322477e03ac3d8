// What a smaller model costs and gains, as a table and as JSON.
#pragma once

#include <string>

#include "headwise/base/json.h"
#include "headwise/train.h"
#include "prune_options.h"

namespace headwise {

// Of the model at --out.
struct Proof {
  const PruningPlan& plan;
  const PruneOutcome& outcome;
  size_t heads = 0;
  std::string note;  // of a machine that was busy
};

void PrintProof(const PruneOptions& options, const Proof& proof);
Json ToJson(const Proof& proof);

}  // namespace headwise
