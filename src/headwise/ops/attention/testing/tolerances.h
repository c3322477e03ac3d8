// How far an implementation may be from the reference, per type of q, k, v:
// |Δ| ≤ tolerance · max(1, |reference|). Test only.
#pragma once

#include "headwise/tensor.h"

namespace headwise {

struct AttentionTolerance {
  double output;      // against max |V|
  double statistics;  // LSE, observations and probabilities
  double gradient;
};

inline AttentionTolerance AttentionToleranceOf(DType type) {
  switch (type) {
    case DType::kBF16:
      // 8 bits: half a unit of the output's rounding is 2^-9, as much again
      // from probabilities rounded for P·V; scores are products in f32.
      return {8e-3, 1e-4, 3e-2};
    case DType::kF16:
      return {1e-3, 1e-4, 4e-3};
    default:
      return {2e-5, 2e-5, 1e-4};
  }
}

}  // namespace headwise
