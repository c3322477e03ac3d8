// Comparing what heads move: the subspaces of the residual stream that W_V
// reads and W_O writes, by their principal angles. Weights alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/context.h"
#include "headwise/nn/head_weights.h"
#include "headwise/tensor/matrix.h"

namespace headwise {

// Rows that span what the rows of a span, orthonormal: [rank, columns].
// Directions below 1e-5 of the largest row count as none.
Matrix RowBasis(Matrix a);

// What a head reads and writes: orthonormal rows [rank, d].
struct ContentSpaces {
  Matrix read;
  Matrix write;
};
ContentSpaces SpacesOf(const HeadWeights& weights);

// Principal angles between row spaces in radians, ascending; as many as the
// smaller one has dimensions.
std::vector<double> PrincipalAngles(const Matrix& a, const Matrix& b);

// [n, n]: mean of cos² over the principal angles of each pair; NaN with an
// empty space. Equal to ‖A·Bᵀ‖² / min(rank), so that no angle is computed.
Matrix MeanSquaredCosines(Context& context, std::span<const Matrix> spaces);

}  // namespace headwise
