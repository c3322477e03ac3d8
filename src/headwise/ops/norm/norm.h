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
  // Segments of a row that are normalised each on its own, such as the heads
  // of a query: rows · segments results, one weight for all of them.
  int64_t segments = 1;
  int64_t row_stride = 0;  // 0: segments · width
};

struct NormArgs {
  const float* x = nullptr;       // [rows, segments, width]
  const float* weight = nullptr;  // [width]; null: 1
  const float* bias = nullptr;    // [width]; null: 0
  float* y = nullptr;             // [rows, segments, width]; may be x
  // Kept for the backward, [rows · segments] each; null: not wanted.
  float* mean = nullptr;  // kLayer only
  float* scale = nullptr;
};

void NormForward(Context& context, const NormProblem& problem,
                 const NormArgs& args);

struct NormGrads {
  const float* dy = nullptr;  // [rows, segments, width]
  float* dx = nullptr;        // the same; overwritten; may be dy
  float* dweight = nullptr;   // [width]; added to; null: not wanted
  float* dbias = nullptr;     // [width]; added to; null: not wanted
};

// args: x, weight, and mean and scale as the forward left them.
void NormBackward(Context& context, const NormProblem& problem,
                  const NormArgs& args, const NormGrads& grads);

}  // namespace headwise
