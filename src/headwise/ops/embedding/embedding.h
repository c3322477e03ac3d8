// Rows of a table by id, and the gradient added back to those rows.
#pragma once

#include <cstdint>

#include "headwise/context.h"
#include "headwise/tensor.h"

namespace headwise {

enum class EmbeddingWrite : uint8_t { kOverwrite, kAdd };

struct EmbeddingProblem {
  EmbeddingWrite write = EmbeddingWrite::kOverwrite;

  friend bool operator==(const EmbeddingProblem&,
                         const EmbeddingProblem&) = default;
};

// Letters in shapes: V rows of W numbers in the table, N ids. Rows have any
// stride, and a last stride of 1.
struct EmbeddingArgs {
  ConstTensorView table = {};  // [V, W] f32, bf16 or f16, at any address
  ConstTensorView ids = {};    // i32 or i64 [N], each in [0, V)
  TensorView out = {};         // [N, W] of any type
};

// out = (or +=) table[ids]. Throws Error(kInvalidArgument) naming the view that
// does not fit, or the first id outside the table where ids are in host memory.
// On a device such an id's row is NaN, and its gradient goes nowhere.
void EmbeddingForward(Context& context, const EmbeddingProblem& problem,
                      const EmbeddingArgs& args);

struct EmbeddingGrads {
  ConstTensorView dout = {};  // [N, W] of any type
  TensorView dtable = {};     // f32 [V, W]; added to
};

// dtable[ids[n]] += dout[n], in the order of n. ids: as in the forward call.
void EmbeddingBackward(Context& context, const ConstTensorView& ids,
                       const EmbeddingGrads& grads);

}  // namespace headwise
