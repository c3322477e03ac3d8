// Scores of heads that are learned: a hard-concrete gate of each that pays for
// being open (Voita et al. 2019), trained with the model frozen, or with the
// weights learning along.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <stop_token>
#include <vector>

#include "headwise/context.h"
#include "headwise/heads/importance/objective.h"
#include "headwise/heads/pruning/remove.h"
#include "headwise/progress.h"
#include "headwise/prune.h"

namespace headwise {

struct GateOptions {
  GateLearning learning = {};
  int64_t batch = 8;         // sequences a step
  DType type = DType::kF32;  // what the model computes in
  ObjectiveOptions objective = {};
  OnProgress progress = {};
  std::stop_token stop = {};
};

struct LearnedGates {
  // log α of each head, in AllHeads' order: gates that close first have the
  // lowest.
  std::vector<double> scores;
  int64_t closed = 0;  // gates that are 0
  // Where weights learned along: all of them, in the stored types. What gates
  // of the run's own multiply by is part of the output matrices; gates that
  // the model had before stay gates.
  ChangedTensors tensors;
  // Of the first windows of text, with gates as the last step left them.
  double loss = 0;
};

// Windows that the first loss, of which the penalty is a share, and the last
// are taken on.
inline constexpr int64_t kGateWindows = 8;

// The files of `folder` stay as they are. Throws Error(kInvalidArgument) for no
// examples and for a learning that makes no sense; otherwise as Tune does.
LearnedGates LearnGates(Context& context, const std::filesystem::path& folder,
                        std::span<const TextExample> examples,
                        const GateOptions& options);

}  // namespace headwise
