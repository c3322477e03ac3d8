// The list of implementations of the cross-entropy, best first.
#pragma once

#include "headwise/ops/implementation_list.h"
#include "headwise/ops/loss/loss.h"

namespace headwise {

struct CrossEntropyCall {
  const CrossEntropyProblem& problem;
  const CrossEntropyArgs& args;
};

ImplementationList<CrossEntropyCall> CrossEntropyImplementations();

// The entries, one per file that makes them.
extern const Implementation<CrossEntropyCall> kCrossEntropyReference;
extern const Implementation<CrossEntropyCall> kCrossEntropyCpuF32;
extern const Implementation<CrossEntropyCall> kCrossEntropyCuda;

}  // namespace headwise
