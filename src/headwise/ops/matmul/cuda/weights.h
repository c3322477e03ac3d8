// Prepared weights as the GPU multiplies them.
#pragma once

#include <span>

#include "headwise/context.h"
#include "headwise/ops/matmul/prepared_weights.h"

namespace headwise {

// Matrices side by side on the context's device, of `type`, their lines aligned
// to 16 bytes: the parts where all are so, else one copy of them, which is made
// (and waited for) at the first request.
std::span<const ConstTensorView> WeightsOnDevice(Context& context,
                                                 const PreparedWeights& weights,
                                                 DType type);

// Whether a matrix's lines begin at multiples of 16 bytes.
bool HasAlignedLines(const ConstTensorView& matrix);

// What products read, if it is on the context's device already.
std::span<const ConstTensorView> FindOnDevice(Context& context,
                                              const PreparedWeights& weights);

}  // namespace headwise
