// What sentence-transformers puts behind a model: modules.json beside it names
// the modules, each in a folder of its own (1_Pooling, 2_Dense, 2_Normalize).
// A module that is not computed is refused by its name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "headwise/embed.h"
#include "headwise/format/safetensors.h"
#include "headwise/nn/linear.h"
#include "headwise/ops/activation/activation.h"

namespace headwise {

// What is done to the pooled vectors, one after the other.
struct SentenceStep {
  Linear dense;  // absent: vectors are made as long as 1
  bool activated = false;
  Activation activation = Activation::kTanh;
};

struct SentenceModules {
  std::vector<Pooling> pooling = {Pooling::kMean};  // side by side
  std::vector<SentenceStep> steps;
  bool normalizes() const { return !steps.empty() && !steps.back().dense; }
  int64_t max_tokens = 0;    // 0: as many as the model knows
  std::string prompt;        // the default one
  bool pools_prompt = true;  // its tokens too
  bool said = false;         // by a modules.json
  std::vector<std::shared_ptr<const Safetensors>> files;  // of the weights
};

// width: of the states. Without modules.json: the mean, and nothing else.
// Throws Error(kCorrupt), Error(kUnsupported).
SentenceModules ReadSentenceModules(const std::filesystem::path& folder,
                                    int64_t width);

}  // namespace headwise
