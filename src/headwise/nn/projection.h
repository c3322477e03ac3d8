// A linear map applied to every position of [B, M, width] views, and the two
// halves of its backward, on ops/matmul.
#pragma once

#include "headwise/context.h"
#include "headwise/ops/matmul/matmul.h"
#include "headwise/tensor.h"

namespace headwise {

// out [B, M, n] = x [B, M, k] · w [k, n] + bias [n]; bias may be null.
void Project(Context& context, const ConstTensorView& x,
             const ConstTensorView& w, const ConstTensorView& bias,
             const TensorView& out);

// dx [B, M, k] (+)= dout [B, M, n] · wᵀ, w [k, n].
void ProjectBackward(Context& context, const ConstTensorView& dout,
                     const ConstTensorView& w, const TensorView& dx,
                     Store store);

// dw [k, n] += xᵀ · dout, dbias [n] += Σ dout; dbias may be null.
void ProjectGradient(Context& context, const ConstTensorView& x,
                     const ConstTensorView& dout, const TensorView& dw,
                     const TensorView& dbias);

}  // namespace headwise
