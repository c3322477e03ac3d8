// The lists of implementations of AdamW and of the sum of squares, best first.
#pragma once

#include "headwise/ops/adamw/adamw.h"
#include "headwise/ops/implementation_list.h"

namespace headwise {

struct AdamWCall {
  const AdamWProblem& problem;
  const AdamWArgs& args;
};
struct SquaresCall {
  const ConstTensorView& x;
  const TensorView& sum;
};

ImplementationList<AdamWCall> AdamWImplementations();
ImplementationList<SquaresCall> SquaresImplementations();

// The entries, one per file that makes them.
extern const Implementation<AdamWCall> kAdamWReference;  // reference.cc
extern const Implementation<AdamWCall> kAdamWCpuF32;     // cpu/f32.cc
extern const Implementation<SquaresCall> kSquaresReference;
extern const Implementation<SquaresCall> kSquaresCpuF32;

}  // namespace headwise
