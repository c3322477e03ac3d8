// Layer and root-mean-square normalisation of rows, forward and backward.
//
//   layer: y = (x − mean) · r · w + b,  r = 1/√(variance + ε)
//   rms:   y = x · r · w,               r = 1/√(mean(x²) + ε)
#pragma once

#include <cstdint>

#include "headwise/context.h"

namespace headwise {

enum class NormKind : uint8_t { kLayer, kRms };

struct NormProblem {
  NormKind kind = NormKind::kLayer;
  int64_t rows = 0;
  int64_t width = 0;
  float epsilon = 1e-5f;
};

struct NormArgs {
  const float* x = nullptr;       // [rows, width]
  const float* weight = nullptr;  // [width]; null: 1
  const float* bias = nullptr;    // [width]; null: 0
  float* y = nullptr;             // [rows, width]; may be x
  // Kept for the backward, [rows] each; null: not wanted.
  float* mean = nullptr;  // kLayer only
  float* scale = nullptr;
};

void NormForward(Context& context, const NormProblem& problem,
                 const NormArgs& args);

struct NormGrads {
  const float* dy = nullptr;  // [rows, width]
  float* dx = nullptr;        // [rows, width]; overwritten; may be dy
  float* dweight = nullptr;   // [width]; added to; null: not wanted
  float* dbias = nullptr;     // [width]; added to; null: not wanted
};

// args: x, weight, and mean and scale as the forward left them.
void NormBackward(Context& context, const NormProblem& problem,
                  const NormArgs& args, const NormGrads& grads);

}  // namespace headwise
