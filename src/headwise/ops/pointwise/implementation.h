// The list of implementations of pointwise, best first.
#pragma once

#include <cstdint>

#include "headwise/ops/implementation_list.h"
#include "headwise/ops/pointwise/pointwise.h"

namespace headwise {

enum class PointwiseKind : uint8_t {
  kAdd,
  kAddScaled,
  kMultiply,
  kScale,
  kColumnSums,    // y: sums
  kSumOfSquares,  // y: sum
  kBeyond,        // y: mark
};

// At least one element is to be read.
struct PointwiseCall {
  PointwiseKind kind = PointwiseKind::kAdd;
  ConstTensorView a = {};
  ConstTensorView b = {};  // kAdd, kAddScaled, kMultiply
  TensorView y = {};
  float factor = 1;  // kAddScaled, kScale; kBeyond: the limit
};

// Whether y is not of a's shape.
inline bool Reduces(const PointwiseCall& call) {
  return call.kind >= PointwiseKind::kColumnSums;
}

ImplementationList<PointwiseCall> PointwiseImplementations();

// The entries, one per file that makes them.
extern const Implementation<PointwiseCall> kPointwiseReference;
extern const Implementation<PointwiseCall> kPointwiseCpuF32;  // cpu/f32.cc
extern const Implementation<PointwiseCall>
    kPointwiseCpuReduce;                                    // cpu/reduce.cc
extern const Implementation<PointwiseCall> kPointwiseCuda;  // cuda/pointwise.cu
extern const Implementation<PointwiseCall>
    kPointwiseCudaReduce;  // cuda/reduce.cu

}  // namespace headwise
