// The second passes' entry points and the distance buckets. Door:
// include/headwise/observation.h.
#include "headwise/observation.h"

#include <algorithm>
#include <bit>

#include "headwise/ops/attention/implementation.h"
#include "headwise/ops/attention/validate.h"

namespace headwise {

int HistogramBucket(int64_t distance) {
  const uint64_t size = distance < 0 ? 0 - static_cast<uint64_t>(distance)
                                     : static_cast<uint64_t>(distance);
  const int bucket =
      std::min(static_cast<int>(std::bit_width(size)), kHistogramCenter);
  return kHistogramCenter + (distance < 0 ? -bucket : bucket);
}

void AttentionRows(Context& context, const AttentionProblem& problem,
                   const AttentionArgs& args, std::span<const RowRef> rows,
                   TensorView probabilities) {
  ValidateRows(problem, args, rows, probabilities);
  RunAttention(context, AttentionRowsCall{problem, args, rows, probabilities});
}

void AttentionTopK(Context& context, const AttentionProblem& problem,
                   const AttentionArgs& args, std::span<const RowRef> rows,
                   TensorView keys, TensorView probabilities) {
  ValidateTopK(problem, args, rows, keys, probabilities);
  RunAttention(context,
               AttentionTopKCall{problem, args, rows, keys, probabilities});
}

void AttentionPairs(Context& context, const AttentionProblem& problem,
                    const AttentionArgs& args, const PairList& pairs,
                    ConstTensorView argmax, TensorView mass,
                    TensorView is_argmax) {
  ValidatePairs(problem, args, pairs, argmax, mass, is_argmax);
  RunAttention(context, AttentionPairsCall{problem, args, pairs, argmax, mass,
                                           is_argmax});
}

void AttentionBand(Context& context, const AttentionProblem& problem,
                   const AttentionArgs& args, int64_t before, int64_t after,
                   TensorView mass, TensorView first) {
  ValidateBand(problem, args, before, after, mass, first);
  RunAttention(context,
               AttentionBandCall{problem, args, before, after, mass, first});
}

void ReceivedAttention(Context& context, const AttentionProblem& problem,
                       const AttentionArgs& args, ConstTensorView query_weights,
                       TensorView received) {
  ValidateReceived(problem, args, query_weights, received);
  RunAttention(context,
               AttentionReceivedCall{problem, args, query_weights, received});
}

void AttentionWindow(Context& context, const AttentionProblem& problem,
                     const AttentionArgs& args, const WindowRequest& window,
                     TensorView maximum, TensorView mean) {
  ValidateWindow(problem, args, window, maximum, mean);
  RunAttention(context,
               AttentionWindowCall{problem, args, window, maximum, mean});
}

void HeadGram(Context& context, std::span<const HeadSource> sources,
              ConstTensorView query_weights, TensorView gram) {
  ValidateGram(sources, query_weights, gram);
  RunAttention(context, AttentionGramCall{sources, query_weights, gram});
}

}  // namespace headwise
