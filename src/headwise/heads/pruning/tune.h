// Repair by training: a pruned model is trained further on a text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <stop_token>

#include "headwise/heads/importance/objective.h"
#include "headwise/heads/pruning/remove.h"
#include "headwise/model/parameters.h"
#include "headwise/progress.h"

namespace headwise {

struct TuneOptions {
  int64_t steps = 100;
  int64_t batch = 8;         // sequences a step
  double rate = 1e-4;        // at its highest
  DType type = DType::kF32;  // what the model computes in
  ObjectiveOptions objective = {};
  uint64_t seed = 0;
  OnProgress progress = {};
  std::stop_token stop = {};
};

struct Tuned {
  ChangedTensors tensors;  // all that was trained, in the stored types
  // Losses on the quarter of the text that is not trained on, before the first
  // step and of what is kept: the best of ten looks, the first included, since
  // a short text is soon known by heart.
  double before = 0;
  double after = 0;
  int64_t kept_step = 0;
};

// Trains the model of `folder`, whose files stay as they are. Throws
// Error(kUnsupported) for models that predict no tokens and for mixtures of
// heads; Error(kInvalidArgument) for fewer than two examples and where the loss
// does not stay finite; Error(kCancelled) when stopped.
Tuned Tune(Context& context, const std::filesystem::path& folder,
           std::span<const TextExample> examples, const TuneOptions& options);

// What a store trained of a folder's tensors, in the stored types.
ChangedTensors TrainedTensors(Context& context, const ParameterStore& store,
                              const std::filesystem::path& folder);

// The same check of what cannot be trained, alone.
void RequireTrainable(const Model& model);

}  // namespace headwise
