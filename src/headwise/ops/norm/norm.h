// Layer and root-mean-square normalisation along the last axis, forward and
// backward.
//
//   layer: y = (x − mean) · r · w + b,  r = 1/√(variance + ε)
//   rms:   y = x · r · w,               r = 1/√(mean(x²) + ε)
//
// Every operator's folder is laid out as this one: the contract and the entry
// points (norm.h, norm.cc), the list of implementations (implementation.h), the
// reference, one folder a device, and tests that hold every entry of the list
// to the reference, and the reference to the formula.
#pragma once

#include <cstdint>

#include "headwise/context.h"
#include "headwise/tensor.h"

namespace headwise {

enum class NormKind : uint8_t { kLayer, kRms };

struct NormProblem {
  NormKind kind = NormKind::kLayer;
  float epsilon = 1e-5f;

  friend bool operator==(const NormProblem&, const NormProblem&) = default;
};

// Letters in shapes: R rows, S segments of a row that are normalised each on
// its own (the heads of a query, say), W their width. All are [R, S, W], or
// [R, W] where S is 1, with a last stride of 1.
struct NormArgs {
  ConstTensorView x = {};
  ConstTensorView weight = {};  // f32 [W]; null: 1
  ConstTensorView bias = {};    // f32 [W]; null: 0
  TensorView y = {};            // as x; may be x
  TensorView kept = {};         // as x: a copy of it; null: not wanted
  // Kept for the backward, f32 [R · S] each; null: not wanted.
  TensorView mean = {};  // kLayer only
  TensorView scale = {};
};

// Throws Error(kInvalidArgument) naming the view that does not fit.
void NormForward(Context& context, const NormProblem& problem,
                 const NormArgs& args);

struct NormGrads {
  ConstTensorView dy = {};  // as x
  TensorView dx = {};       // as x; overwritten; may be dy
  TensorView dweight = {};  // f32 [W]; added to; null: not wanted
  TensorView dbias = {};    // f32 [W]; added to; null: not wanted
  // As x, added to dx (what reaches x around the norm); null: 0; may be dx.
  ConstTensorView added = {};
};

// args: x, weight, and mean and scale as the forward left them.
void NormBackward(Context& context, const NormProblem& problem,
                  const NormArgs& args, const NormGrads& grads);

}  // namespace headwise
