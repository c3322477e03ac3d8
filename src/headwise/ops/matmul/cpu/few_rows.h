// Products with few rows of A, as in generating text: B is read once, where it
// lies and as it is stored, at the speed of memory.
#pragma once

#include "headwise/backend/cpu/workspace.h"
#include "headwise/ops/matmul/implementation.h"

namespace headwise {

// The rows of A as [m, k], dense: where they lie, or copied.
class DenseRows {
 public:
  DenseRows(Context& context, const MatmulCall& call);
  const float* data() const { return data_; }

 private:
  Scratch copy_;
  const float* data_ = nullptr;
};

// to [rows, columns], f32 with a last stride of 1, from a matrix of f32, bf16
// or f16 at any address with a last stride of 1.
void ConvertToF32(Context& context, const ConstTensorView& from,
                  const TensorView& to);

}  // namespace headwise
