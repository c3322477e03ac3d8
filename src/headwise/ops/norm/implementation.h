// The list of implementations of the norm, best first.
#pragma once

#include <cstdint>

#include "headwise/ops/implementation_list.h"
#include "headwise/ops/norm/norm.h"

namespace headwise {

struct NormCall {
  const NormProblem& problem;
  const NormArgs& args;
  const NormGrads* grads = nullptr;  // null: the forward
};

ImplementationList<NormCall> NormImplementations();

// The entries, one per file that makes them.
extern const Implementation<NormCall> kNormReference;  // reference.cc
extern const Implementation<NormCall> kNormCpuF32;     // cpu/f32.cc
extern const Implementation<NormCall> kNormCuda;       // cuda/norm.cu

// x as R rows of S segments of W elements.
struct NormSizes {
  int64_t rows = 0;
  int64_t segments = 1;
  int64_t width = 0;
};
inline NormSizes SizesOf(const NormCall& call) {
  const ConstTensorView& x = call.args.x;
  return {x.shape[0], x.rank == 3 ? x.shape[1] : 1, x.shape[x.rank - 1]};
}

// Where segment `row` (of R · S) of a view such as x begins, in elements.
template <typename Void>
int64_t SegmentBegin(const BasicView<Void>& view, int64_t row) {
  if (view.rank == 2) return row * view.stride[0];
  return row / view.shape[1] * view.stride[0] +
         row % view.shape[1] * view.stride[1];
}

}  // namespace headwise
