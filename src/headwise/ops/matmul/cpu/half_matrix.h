// Few rows times a HalfMatrix.
#pragma once

#include "headwise/ops/matmul/matmul.h"

namespace headwise {

// args.half_b is given; problem.m ≤ kFewRows. a: [m, k], dense.
void MultiplyHalf(Context& context, const MatmulProblem& problem,
                  const MatmulArgs& args, const float* a);

}  // namespace headwise
