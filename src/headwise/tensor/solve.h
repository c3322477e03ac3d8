// Linear equations of small dense matrices.
#pragma once

#include "headwise/tensor/matrix.h"

namespace headwise {

// A solution x of a · x = b for a symmetric positive definite a, by Cholesky.
// Both are overwritten, b by x.
void SolvePositive(Matrix& a, Matrix& b);

}  // namespace headwise
