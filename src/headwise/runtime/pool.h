// From the states of tokens to one vector a text.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/context.h"
#include "headwise/embed.h"
#include "headwise/model/sentence_modules.h"

namespace headwise {

// states: [tokens, width] of one text, at least one of them. Appends `width`
// numbers for each pooling.
void PoolStates(std::span<const float> states, int64_t width,
                std::span<const Pooling> pooling, std::vector<float>& to);

// Rows of numbers through the modules behind the pooling.
struct VectorRows {
  int64_t width = 0;
  std::vector<float> values;  // [rows, width]

  int64_t rows() const { return std::ssize(values) / width; }
};
VectorRows RunSteps(Context& context, std::span<const SentenceStep> steps,
                    VectorRows rows);

// Each row over its length, in place; rows of zeros stay.
void NormalizeRows(VectorRows& rows);

}  // namespace headwise
