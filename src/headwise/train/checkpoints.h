// The folder of a training run. Checkpoints are folders that appear whole or
// not at all, each a model that Hugging Face's transformers loads, with the
// optimizer's state beside it:
//
//   OUT/checkpoints/step-00000500/  config.json tokenizer.json
//       model.safetensors (f32) optimizer.safetensors training.json
//   OUT/  config.json tokenizer.json model.safetensors training.json: the
//       finished model, as the last step left it
//
// Two checkpoints stay: the newest, and the one with the lowest validation
// loss, which training.json names as its best.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/context.h"
#include "headwise/model/parameters.h"
#include "headwise/train/optimizer.h"

namespace headwise {

// The files that are the same in every checkpoint of a run.
struct RunFiles {
  Json config;                      // config.json
  std::filesystem::path tokenizer;  // tokenizer.json; empty: none
  Json tokenizer_config;            // tokenizer_config.json
};

// training.json: the manifest and how far the run came.
struct TrainingRecord {
  Json config;   // the TrainConfig
  Json data;     // hash, files, tokens
  Json machine;  // of the last piece of the run
  int64_t step = 0;
  int64_t parameters = 0;
  double seconds = 0;
  int64_t tokens = 0;
  std::vector<double> losses;                          // one a step
  std::vector<std::pair<int64_t, double>> validation;  // step, loss

  // The lowest validation loss with its step, the first of equal ones.
  std::optional<std::pair<int64_t, double>> Best() const;

  Json ToJson() const;
  // Throws Error(kCorrupt) naming the key whose value has the wrong type or
  // contradicts another: as many losses as steps, no evaluation after the last.
  static TrainingRecord FromFile(const std::filesystem::path& file);
};

// OUT/checkpoints/step-…
std::filesystem::path CheckpointFolder(const std::filesystem::path& out,
                                       int64_t step);
// −1 for a folder that is no checkpoint's.
int64_t StepOfCheckpoint(const std::filesystem::path& folder);

// The newest checkpoint of a run, or none.
std::optional<std::filesystem::path> NewestCheckpoint(
    const std::filesystem::path& out);

// Puts a checkpoint in place, then removes older ones but for the best and for
// those whose step is a multiple of keep_every (0: none is).
void SaveCheckpoint(const std::filesystem::path& out, const RunFiles& files,
                    const ParameterStore& store, OptimizerState state,
                    const TrainingRecord& record);

// All of them: a new run begins in the folder of an old one.
void RemoveCheckpoints(const std::filesystem::path& out);

// Values and optimizer state, exactly as they were saved.
void RestoreCheckpoint(Context& context, const std::filesystem::path& folder,
                       ParameterStore& store, Optimizer& optimizer,
                       int64_t step);

// The finished model, every file whole or not at all.
void SaveModel(const std::filesystem::path& out, const RunFiles& files,
               const ParameterStore& store, DType type,
               const TrainingRecord& record);

}  // namespace headwise
