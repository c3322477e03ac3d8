// Loss and speed of a smaller model, as a table and as JSON.
#pragma once

#include <string>

#include "headwise/base/json.h"
#include "headwise/model_info.h"
#include "headwise/prune.h"
#include "prune_options.h"

namespace headwise {

// The proof of the model at --out.
struct Proof {
  const PruningPlan& plan;
  const PruneOutcome& outcome;
  size_t heads = 0;
  std::string note;  // of a machine that was busy
};

// The share of heads in the model, before any leaves: a line or two.
void PrintShare(const HeadShare& share, const PruneOptions& options);
Json ToJson(const HeadShare& share);

void PrintProof(const PruneOptions& options, const Proof& proof);
Json ToJson(const Proof& proof);

// "fold,finetune", or "none"
std::string RepairText(const PruneJob& job);

}  // namespace headwise
