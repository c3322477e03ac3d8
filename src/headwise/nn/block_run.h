// One run of a block, forward or backward. Private to block.cc and
// block_backward.cc.
#pragma once

#include <cstddef>

#include "headwise/nn/block.h"

namespace headwise {

struct Block::Run {
  Context& context;
  const BlockInput& input;

  // Null: nothing is kept.
  StepSaved* Saved(size_t index) const {
    return input.saved != nullptr ? &input.saved->steps[index] : nullptr;
  }

  // Each kind of step draws from a stream of its own.
  uint64_t Stream(const BlockStep& step) const {
    return input.dropout.stream + static_cast<uint64_t>(step.kind);
  }
  DropoutMask Dropout(const BlockStep& step) const {
    DropoutMask dropout = input.dropout;
    dropout.stream = Stream(step);
    return dropout;
  }

  ExpertsInput OfExperts() const {
    ExpertsInput experts = {.hooks = input.hooks};
    if (input.gate_training != nullptr) {
      experts.balance = input.gate_training->expert_balance;
      experts.loss = input.gate_training->loss;
    }
    return experts;
  }

  // But for x.
  AttentionInput Attention(const BlockStep& step, size_t index) const {
    AttentionInput attention;
    attention.batch = input.batch;
    attention.hooks = input.hooks;
    attention.gate_draw = {input.gate_training, Stream(step)};
    if (StepSaved* saved = Saved(index)) attention.saved = &saved->attention;
    if (step.kind == StepKind::kAttention) {
      attention.cache = input.cache;
      return attention;
    }
    attention.memory = input.memory;
    attention.memory_batch = input.memory_batch;
    attention.cache = input.cross_cache;
    return attention;
  }
};

}  // namespace headwise
