// The list of implementations of the product, best first.
#pragma once

#include <span>

#include "headwise/ops/implementation_list.h"
#include "headwise/ops/matmul/matmul.h"
#include "headwise/ops/matmul/prepared_weights.h"
#include "headwise/ops/precision.h"

namespace headwise {

struct MatmulCall {
  const MatmulProblem& problem;
  const MatmulArgs& args;
};

ImplementationList<MatmulCall> MatmulImplementations();

// The entries, one per file that makes them.
extern const Implementation<MatmulCall> kMatmulReference;    // reference.cc
extern const Implementation<MatmulCall> kMatmulCpuF32;       // cpu/f32.cc
extern const Implementation<MatmulCall> kMatmulCpuFewRows;   // cpu/few_rows.cc
extern const Implementation<MatmulCall> kMatmulCpuHalfRows;  // cpu/half_rows.cc
extern const Implementation<MatmulCall> kMatmulCudaRows;     // cuda/rows.cu
extern const Implementation<MatmulCall> kMatmulCudaLt;       // cuda/lt.cc

// B's matrices, however it is given.
inline std::span<const ConstTensorView> PartsOf(const MatmulArgs& args) {
  if (args.weights != nullptr) return args.weights->matrices();
  return args.parts.empty() ? std::span(&args.b, 1) : args.parts;
}
inline Operand OperandOfB(const MatmulCall& call) {
  return call.args.weights != nullptr ? call.args.weights->operand()
                                      : call.problem.b;
}
inline int64_t ColumnsOfC(const MatmulProblem& problem) {
  return problem.epilogue == Epilogue::kSiluGated ? problem.n / 2 : problem.n;
}
// Columns of A·B that a part of B makes.
inline int64_t ColumnsOf(const ConstTensorView& part, Operand operand) {
  return part.shape[operand == Operand::kTransposed ? 0 : 1];
}
// Why an entry that multiplies what is stored, and only stores C or adds to it,
// does not take a call.
inline Reason WhyNotPlainProduct(const MatmulCall& call) {
  if (call.problem.epilogue != Epilogue::kNone) return "has no epilogue";
  return WhyNotPrecision(call.problem.precision, call.args.a.type);
}
// Whether halves lie together along B's last axis, as the CPU reads them.
inline bool HalvesLieTogether(const MatmulArgs& args) {
  for (const ConstTensorView& part : PartsOf(args)) {
    if (part && part.type != DType::kF32 && part.stride[1] != 1) return false;
  }
  return true;
}

}  // namespace headwise
