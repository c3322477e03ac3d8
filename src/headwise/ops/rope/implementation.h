// The list of implementations of rope, best first.
#pragma once

#include "headwise/ops/implementation_list.h"
#include "headwise/ops/rope/rope.h"

namespace headwise {

struct RopeCall {
  const RopeProblem& problem;
  const RopeArgs& args;
  // On a device: of x's type, all of D turns, at most kMostAppended pairs.
  const RopeAppend* append = nullptr;
};
inline constexpr int64_t kMostAppended = 256;

// Pair i of a head stands at i · step and i · step + apart.
struct PairLayout {
  int64_t step = 1, apart = 0;
};
inline PairLayout PlacesOf(const RopeCall& call) {
  const bool halves = call.problem.pairs == RopePairs::kHalves;
  return halves ? PairLayout{1, call.args.frequencies.shape[0]}
                : PairLayout{2, 1};
}

ImplementationList<RopeCall> RopeImplementations();

// The entries, one per file that makes them.
extern const Implementation<RopeCall> kRopeReference;  // reference.cc
extern const Implementation<RopeCall> kRopeCpuF32;     // cpu/f32.cc
extern const Implementation<RopeCall> kRopeCuda;       // cuda/rope.cu

}  // namespace headwise
