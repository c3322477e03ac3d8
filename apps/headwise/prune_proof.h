// What a smaller model costs and gains, measured, as a table and as JSON.
#pragma once

#include <string>
#include <vector>

#include "headwise/heads/pruning/evaluate.h"
#include "prune_repair.h"
#include "prune_timing.h"

namespace headwise {

struct Proof {
  Evaluation loss;
  RepairReport repair;
  std::vector<PairTiming> timings;
  std::string note;    // of a machine that was busy
  std::string search;  // how the heads were found
  int64_t weights[2] = {0, 0};
  int64_t cache[2] = {0, 0};
};

// Of the model at --out.
Proof Prove(const PruneOptions& options, const PruneMaterial& material,
            const JudgedText& judge, Context& context);

void PrintProof(const PruneOptions& options, const Proof& proof, size_t removed,
                size_t heads);
Json ToJson(const Proof& proof);

}  // namespace headwise
