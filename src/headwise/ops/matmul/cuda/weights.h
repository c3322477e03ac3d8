// Prepared weights as the GPU multiplies them.
#pragma once

#include <span>

#include "headwise/context.h"
#include "headwise/ops/matmul/implementation.h"

namespace headwise {

// Matrices [n, k] side by side on the context's device, of `type`, their lines
// aligned to 16 bytes: the parts where all are so, else one copy of them, which
// is made (and waited for) at the first request. Few rows are multiplied at the
// speed of memory with lines along k only, and many no slower.
std::span<const ConstTensorView> WeightsOnDevice(Context& context,
                                                 const PreparedWeights& weights,
                                                 DType type);

// How B lies, as WeightsOnDevice gives it or as the call does.
inline Operand OperandOnDevice(const MatmulCall& call) {
  return call.args.weights != nullptr ? Operand::kTransposed : call.problem.b;
}

// Whether a matrix's lines begin at multiples of 16 bytes.
bool HasAlignedLines(const ConstTensorView& matrix);

// What products read, if it is on the context's device already.
std::span<const ConstTensorView> FindOnDevice(Context& context,
                                              const PreparedWeights& weights);

}  // namespace headwise
