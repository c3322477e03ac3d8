// Kind and cost of a checkpoint, from its headers alone: nothing is loaded.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "headwise/model/checkpoint.h"
#include "headwise/model/config.h"
#include "headwise/model/model.h"

namespace headwise {

struct ModelSummary {
  ModelConfig config;
  int64_t tensors = 0;
  int64_t parameters = 0;
  int64_t embedding_parameters = 0;  // token, position and type tables
  int64_t file_bytes = 0;
  std::map<std::string, int64_t> types;  // parameters by type: {"f16": …}
};

ModelSummary Summarise(const Checkpoint& checkpoint);

// Work and memory of one text of n tokens, by the stack that predicts (the
// encoder where there is no decoder).
struct RunCost {
  int64_t tokens = 0;
  double projection_flops = 0;  // attention's four matrices
  double attention_flops = 0;   // scores and mixtures over visible pairs
  double mlp_flops = 0;
  double head_flops = 0;    // the vocabulary
  double cache_bytes = 0;   // keys and values, f32
  double stream_bytes = 0;  // activations of a run: O(tokens · width)
  double maps_bytes = 0;    // what keeping every attention map would take

  double flops() const {
    return projection_flops + attention_flops + mlp_flops + head_flops;
  }
};

// The matrices that every token of a stack passes, block by block.
std::vector<const Linear*> LinearsOf(const Stack& stack);

// What the stack that predicts reads for one token, as stored: its matrices
// and the vocabulary's.
int64_t WeightBytesOfToken(const Model& model);

RunCost CostOf(const ModelConfig& config, int64_t tokens);

}  // namespace headwise
