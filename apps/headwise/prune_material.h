// A model with its text cut into examples, for `prune`.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "headwise/heads/importance/corpus_runs.h"
#include "headwise/heads/importance/statistics.h"
#include "headwise/model/checkpoint.h"
#include "progress_bar.h"
#include "run_flags.h"

namespace headwise {

struct PruneMaterial {
  Checkpoint checkpoint;
  std::vector<TextExample> examples;
  ObjectiveOptions objective;

  const Model& model() const { return checkpoint.model(); }
};
// Windows of 256 tokens where the flags say nothing else.
PruneMaterial ReadPruneMaterial(const RunFlags& run, const TextFlags& text);

// Of a corpus run with a bar that shows it, which Ctrl-C ends.
CorpusOptions CorpusOptionsFor(const PruneMaterial& material, ProgressBar& bar,
                               uint64_t seed);

}  // namespace headwise
