// The list of implementations of the core sums, best first.
#pragma once

#include <cstdint>

#include "headwise/ops/head_core/head_core.h"
#include "headwise/ops/implementation_list.h"

namespace headwise {

struct HeadCoreCall {
  const HeadCoreProblem& problem;
  const HeadCoreArgs& args;
};

ImplementationList<HeadCoreCall> HeadCoreImplementations();

// The entries, one per file that makes them.
extern const Implementation<HeadCoreCall> kHeadCoreReference;  // reference.cc
extern const Implementation<HeadCoreCall> kHeadCoreCuda;  // cuda/head_core.cu

// From here on a normalised entropy is broad.
inline constexpr double kBroadEntropy = 0.8;

}  // namespace headwise
