// One layer of several trained models on one sentence, beside each other:
// comparison.h with weights that were learned.
#pragma once

#include <filesystem>
#include <optional>
#include <stop_token>
#include <string_view>
#include <vector>

#include "headwise/progress.h"
#include "headwise/study/compare/comparison.h"

namespace headwise {

struct TrainedComparison {
  std::vector<std::filesystem::path> models;  // folders, at least one
  // Of all models. Without it: where the last model's heads differ most on this
  // sentence, or, of models with different numbers of layers, where each one's
  // own do.
  std::optional<int64_t> layer = {};
  // Calls the models by name: they are not known to be alike but for the number
  // of heads.
  bool named = false;
  // Also tells the heads' roles, as far as random repeats show them: runs each
  // model some seconds longer.
  bool roles = false;
  DType type = DType::kF32;  // what the models compute in
  OnProgress progress = {};
  std::stop_token stop = {};
};

// Models may differ in everything, tokenizers too. Throws
// Error(kInvalidArgument) for a sentence that is too short or too long, a layer
// that is not there or has no heads, and encoder–decoders.
Comparison CompareTrained(Context& context, std::string_view sentence,
                          const TrainedComparison& asked);

}  // namespace headwise
