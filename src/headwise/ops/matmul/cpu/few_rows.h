// Products with few rows of A, as in generating text: B is read once, where it
// lies and as it is stored, at the speed of memory.
#pragma once

#include "headwise/ops/matmul/matmul.h"

namespace headwise {

// args.b (of whatever type) or args.half_b is given; problem.m ≤ kFewRows.
void MultiplyFewRows(Context& context, const MatmulProblem& problem,
                     const MatmulArgs& args);

// to [rows, columns], dense, from a matrix of f32, bf16 or f16 at any address
// with a last stride of 1.
void ConvertToF32(Context& context, const ConstTensorView& from, float* to);

}  // namespace headwise
