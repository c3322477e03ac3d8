// What `evaluate` and `prune` share: a model with its text cut into examples.
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
  // Encoder–decoders: what the targets say, one an example.
  std::vector<std::string> references = {};

  const Model& model() const { return checkpoint.model(); }
};
// Windows of 256 tokens where the flags say nothing else.
PruneMaterial ReadPruneMaterial(const RunFlags& run, const TextFlags& text);

// Of a corpus run with a bar that shows it, which Ctrl-C ends.
CorpusOptions CorpusOptionsFor(const PruneMaterial& material, ProgressBar& bar,
                               uint64_t seed);

// "2.3410 [2.2977, 2.3844]"
std::string ToText(const Interval& interval, bool sign = false);

}  // namespace headwise
