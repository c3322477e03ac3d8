// Eigenvalues of small general matrices, by LAPACK.
#pragma once

#include <complex>
#include <vector>

#include "headwise/tensor/matrix.h"

namespace headwise {

// Of a square matrix, in no particular order, pairs of conjugates together.
// Throws Error(kInvalidArgument) when it is not square or not finite.
std::vector<std::complex<double>> Eigenvalues(const Matrix& a);

}  // namespace headwise
