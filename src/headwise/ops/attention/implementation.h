// The one list of implementations of the attention operator, best first, the
// reference last. Dispatch takes the first that has the pass and no objection;
// tests run every entry against the reference; benches time every entry.
#pragma once

#include <span>
#include <string>

#include "headwise/attention.h"
#include "headwise/observation.h"

namespace headwise {

// Passes that an implementation leaves null go to the next one in the list.
// Arguments have been validated before any of these is called.
struct AttentionImplementation {
  const char* name = "";
  // Empty, or the reason why this problem cannot be run here and now.
  std::string (*why_not)(const AttentionProblem& problem) = nullptr;

  void (*forward)(Context&, const AttentionProblem&,
                  const AttentionArgs&) = nullptr;
  void (*backward)(Context&, const AttentionProblem&, const AttentionArgs&,
                   const AttentionGrads&) = nullptr;
  void (*rows)(Context&, const AttentionProblem&, const AttentionArgs&,
               std::span<const RowRef>, TensorView probabilities) = nullptr;
  void (*top_k)(Context&, const AttentionProblem&, const AttentionArgs&,
                std::span<const RowRef>, TensorView keys,
                TensorView probabilities) = nullptr;
  void (*pairs)(Context&, const AttentionProblem&, const AttentionArgs&,
                const PairList&, ConstTensorView argmax, TensorView mass,
                TensorView is_argmax) = nullptr;
  void (*band)(Context&, const AttentionProblem&, const AttentionArgs&,
               int64_t before, int64_t after, TensorView mass) = nullptr;
  void (*received)(Context&, const AttentionProblem&, const AttentionArgs&,
                   ConstTensorView query_weights,
                   TensorView received) = nullptr;
  void (*window)(Context&, const AttentionProblem&, const AttentionArgs&,
                 const WindowRequest&, TensorView maximum,
                 TensorView mean) = nullptr;
  void (*gram)(Context&, std::span<const HeadSource>,
               ConstTensorView query_weights, TensorView gram) = nullptr;
};

std::span<const AttentionImplementation> AttentionImplementations();

// The entries, one per file that makes them. Those of CUDA come from cuda/ or,
// where the build has none, from no_cuda/.
extern const AttentionImplementation kAttentionCudaSm90;
extern const AttentionImplementation kAttentionCudaSm80;
extern const AttentionImplementation kAttentionReference;  // reference.cc
extern const AttentionImplementation kAttentionCpuF32;     // cpu/f32.cc

}  // namespace headwise
