// The reference's other passes, for its entry in reference.cc.
#pragma once

#include <span>

#include "headwise/attention.h"
#include "headwise/observation.h"

namespace headwise {

// reference_backward.cc
void ReferenceBackward(Context&, const AttentionProblem& problem,
                       const AttentionArgs& args, const AttentionGrads& grads);

// reference_second.cc
void ReferenceRows(Context&, const AttentionProblem& problem,
                   const AttentionArgs& args, std::span<const RowRef> rows,
                   TensorView probabilities);
void ReferenceTopK(Context&, const AttentionProblem& problem,
                   const AttentionArgs& args, std::span<const RowRef> rows,
                   TensorView keys, TensorView probabilities);
void ReferencePairs(Context&, const AttentionProblem& problem,
                    const AttentionArgs& args, const PairList& pairs,
                    ConstTensorView argmax, TensorView mass,
                    TensorView is_argmax);
void ReferenceBand(Context&, const AttentionProblem& problem,
                   const AttentionArgs& args, int64_t before, int64_t after,
                   TensorView mass, TensorView first);
void ReferenceReceived(Context&, const AttentionProblem& problem,
                       const AttentionArgs& args, ConstTensorView query_weights,
                       TensorView received);
void ReferenceWindow(Context&, const AttentionProblem& problem,
                     const AttentionArgs& args, const WindowRequest& window,
                     TensorView maximum, TensorView mean);
void ReferenceGram(Context&, std::span<const HeadSource> sources,
                   ConstTensorView query_weights, TensorView gram);

}  // namespace headwise
