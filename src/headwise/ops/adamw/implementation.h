// The list of implementations of AdamW, best first.
#pragma once

#include "headwise/ops/adamw/adamw.h"
#include "headwise/ops/implementation_list.h"

namespace headwise {

struct AdamWCall {
  const AdamWProblem& problem;
  const AdamWArgs& args;
};

ImplementationList<AdamWCall> AdamWImplementations();

// The entries, one per file that makes them.
extern const Implementation<AdamWCall> kAdamWReference;  // reference.cc
extern const Implementation<AdamWCall> kAdamWCpuF32;     // cpu/f32.cc
extern const Implementation<AdamWCall> kAdamWCuda;       // cuda/adamw.cu

}  // namespace headwise
