// The list of implementations of the attention operator, best first.
#pragma once

#include <string>

#include "headwise/ops/attention/call.h"
#include "headwise/ops/implementation_list.h"

namespace headwise {

// why_not looks at a call's problems, then whether it has the pass, then at the
// views that are given: of a call without views it says what holds for any.
using AttentionImplementation = Implementation<AttentionCall>;

ImplementationList<AttentionCall> AttentionImplementations();

// Gives a validated call to the first implementation that takes it. Throws
// Error(kInvalidArgument) for a problem on another device than the context's.
void RunAttention(Context& context, const AttentionCall& call);

// The entries, one per file that makes them. Those of CUDA come from cuda/ or,
// where the build has none, from no_cuda/.
extern const AttentionImplementation kAttentionCudaSm90;
extern const AttentionImplementation kAttentionCudaSm80;
extern const AttentionImplementation kAttentionCudaPlain;
extern const AttentionImplementation kAttentionReference;  // reference.cc
extern const AttentionImplementation kAttentionCpuF32;     // cpu/f32.cc

// Why an entry would not run a pass of a problem, whatever the views.
inline Reason WhyNot(const AttentionImplementation& entry, AttentionPass pass,
                     const AttentionProblem& problem) {
  return WhyNotPass(entry.why_not, pass, problem);
}

}  // namespace headwise
