// Scores of heads that are learned: a hard-concrete gate of each, trained with
// the model frozen, that pays for being open (Voita et al. 2019).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <stop_token>
#include <vector>

#include "headwise/base/progress.h"
#include "headwise/context.h"
#include "headwise/heads/importance/objective.h"

namespace headwise {

struct GateOptions {
  int64_t steps = 200;
  int64_t batch = 8;  // sequences a step
  // What an open head costs, as a share of the whole model's loss, over all
  // heads together.
  double penalty = 0.2;
  DType type = DType::kF32;  // what the model computes in
  ObjectiveOptions objective = {};
  uint64_t seed = 0;
  ProgressCallback progress = {};
  std::stop_token stop = {};
};

// log α of each head, in AllHeads' order: gates that close first have the
// lowest. The model of `folder` stays as it is. Throws as Tune does.
std::vector<double> LearnGates(Context& context,
                               const std::filesystem::path& folder,
                               std::span<const TextExample> examples,
                               const GateOptions& options);

}  // namespace headwise
