// What every call of the attention operator must hold before an implementation
// sees it. Each function throws Error(kInvalidArgument) naming the numbers.
#pragma once

#include <span>

#include "headwise/attention.h"
#include "headwise/observation.h"

namespace headwise {

// Longest sequence and largest offset: positions and keys fit 32 bits.
inline constexpr int64_t kMaxPosition = (int64_t{1} << 30) - 1;

void ValidateProblem(const AttentionProblem& problem);
void ValidateForward(const AttentionProblem& problem,
                     const AttentionArgs& args);
void ValidateBackward(const AttentionProblem& problem,
                      const AttentionArgs& args, const AttentionGrads& grads);

// Second passes (validate_second.cc).
void ValidateRows(const AttentionProblem& problem, const AttentionArgs& args,
                  std::span<const RowRef> rows,
                  const TensorView& probabilities);
void ValidateTopK(const AttentionProblem& problem, const AttentionArgs& args,
                  std::span<const RowRef> rows, const TensorView& keys,
                  const TensorView& probabilities);
void ValidatePairs(const AttentionProblem& problem, const AttentionArgs& args,
                   const PairList& pairs, const ConstTensorView& argmax,
                   const TensorView& mass, const TensorView& is_argmax);
void ValidateBand(const AttentionProblem& problem, const AttentionArgs& args,
                  int64_t before, int64_t after, const TensorView& mass,
                  const TensorView& first);
void ValidateReceived(const AttentionProblem& problem,
                      const AttentionArgs& args,
                      const ConstTensorView& query_weights,
                      const TensorView& received);
void ValidateWindow(const AttentionProblem& problem, const AttentionArgs& args,
                    const WindowRequest& window, const TensorView& maximum,
                    const TensorView& mean);
void ValidateGram(std::span<const HeadSource> sources,
                  const ConstTensorView& query_weights, const TensorView& gram);

// Checks that all passes share: sizes, q and k, lengths, starts, offsets,
// biases, sink logits, active heads. The views are added to `views`.
class ViewChecker;
void CheckScoreInputs(const AttentionProblem& problem,
                      const AttentionArgs& args, ViewChecker& views);

}  // namespace headwise
