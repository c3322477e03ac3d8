// A whole training run from its configuration: data, model, steps,
// checkpoints. The door of the folder; `headwise train` is this.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <stop_token>

#include "headwise/context.h"
#include "headwise/dist/group.h"
#include "headwise/progress.h"
#include "headwise/train/checkpoints.h"
#include "headwise/train/config.h"
#include "headwise/train/trainer.h"

namespace headwise {

// The state that an observer sees after each step. The model may be run, and
// its parameters read, during the call.
struct StepView {
  const StepReport& report;
  double validation = std::numeric_limits<double>::quiet_NaN();
  double seconds = 0;        // of this piece of the run
  int64_t steps_before = 0;  // done in earlier pieces
  const Model& model;
};

struct RunOptions {
  bool resume = false;       // continue the run in config.out, if there is one
  bool replace = false;      // begin anew over what config.out holds
  DType type = DType::kF32;  // what the model computes in
  OnProgress progress;       // of what comes before the first step
  // The model as it is before the first step of this piece, and the steps that
  // earlier pieces did. It may be run during the call.
  std::function<void(const Model&, int64_t step)> on_start;
  std::function<void(const StepView&)> on_step;
  // Ranks that share each step (TrainConfig::parts); null: this process alone.
  // Every rank calls RunTraining; rank 0 reads and writes the folder's
  // checkpoints for all, and the others read what it names.
  dist::Group* group = nullptr;
  // Where the times of the first steps are written (timeline.h), every rank's;
  // empty: nowhere.
  std::filesystem::path timeline = {};
  std::stop_token stop;  // saves a checkpoint and returns
};

struct RunResult {
  TrainingRecord record;
  bool finished = false;  // false: stopped before the last step
  // The model as the last step left it: config.out of a finished run, else its
  // newest checkpoint.
  std::filesystem::path last;
  // The checkpoint with the lowest validation loss; empty: there was none.
  std::filesystem::path best;
};

// Throws Error: kInvalidArgument for a folder that holds a run or a model
// already and is neither to be resumed nor to be replaced, for one in which
// another run is at work, for one whose configuration or data changed (listing
// how), and for a loss that is not finite; kCorrupt for a checkpoint whose
// record contradicts itself.
RunResult RunTraining(Context& context, const TrainConfig& config,
                      const RunOptions& options);

}  // namespace headwise
