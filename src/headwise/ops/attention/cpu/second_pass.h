// Second passes of cpu.f32: what is computed again from (q, k, LSE) after a
// forward call, without an N × N buffer. Shapes:
// include/headwise/observation.h.
#pragma once

#include <span>

#include "headwise/context.h"
#include "headwise/observation.h"

namespace headwise {

// second_pass_rows.cc: one query at a time, O(D) an entry.
void RowsF32(Context& context, const AttentionProblem& problem,
             const AttentionArgs& args, std::span<const RowRef> rows,
             TensorView probabilities);
void TopKF32(Context& context, const AttentionProblem& problem,
             const AttentionArgs& args, std::span<const RowRef> rows,
             TensorView keys, TensorView probabilities);
void PairsF32(Context& context, const AttentionProblem& problem,
              const AttentionArgs& args, const PairList& pairs,
              ConstTensorView argmax, TensorView mass, TensorView is_argmax);
void WindowF32(Context& context, const AttentionProblem& problem,
               const AttentionArgs& args, const WindowRequest& window,
               TensorView maximum, TensorView mean);

// second_pass_band.cc: four queries at a time.
void BandF32(Context& context, const AttentionProblem& problem,
             const AttentionArgs& args, int64_t before, int64_t after,
             TensorView mass, TensorView first = {});

// second_pass_received.cc: register tiles over all scores.
void ReceivedF32(Context& context, const AttentionProblem& problem,
                 const AttentionArgs& args, ConstTensorView query_weights,
                 TensorView received);

// second_pass_gram.cc
void HeadGramF32(Context& context, std::span<const HeadSource> sources,
                 ConstTensorView query_weights, TensorView gram);

}  // namespace headwise
