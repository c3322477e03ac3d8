// One call of the attention operator: a pass with its problem and its views.
// Calls borrow all that they hold.
#pragma once

#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <variant>

#include "headwise/attention.h"
#include "headwise/observation.h"
#include "headwise/ops/implementation_list.h"

namespace headwise {

struct AttentionForwardCall {
  const AttentionProblem& problem;
  const AttentionArgs& args;
};
struct AttentionBackwardCall {
  const AttentionProblem& problem;
  const AttentionArgs& args;
  const AttentionGrads& grads;
};
struct AttentionRowsCall {
  const AttentionProblem& problem;
  const AttentionArgs& args;
  std::span<const RowRef> rows = {};
  TensorView probabilities = {};
};
struct AttentionTopKCall {
  const AttentionProblem& problem;
  const AttentionArgs& args;
  std::span<const RowRef> rows = {};
  TensorView keys = {};
  TensorView probabilities = {};
};
struct AttentionPairsCall {
  const AttentionProblem& problem;
  const AttentionArgs& args;
  PairList pairs = {};
  ConstTensorView argmax = {};
  TensorView mass = {};
  TensorView is_argmax = {};
};
struct AttentionBandCall {
  const AttentionProblem& problem;
  const AttentionArgs& args;
  int64_t before = 0;
  int64_t after = 0;
  TensorView mass = {};
  TensorView first = {};
};
struct AttentionReceivedCall {
  const AttentionProblem& problem;
  const AttentionArgs& args;
  ConstTensorView query_weights = {};
  TensorView received = {};
};
struct AttentionWindowCall {
  const AttentionProblem& problem;
  const AttentionArgs& args;
  WindowRequest window = {};
  TensorView maximum = {};
  TensorView mean = {};
};
struct AttentionGramCall {
  std::span<const HeadSource> sources;
  ConstTensorView query_weights = {};
  TensorView gram = {};
};

using AttentionCall =
    std::variant<AttentionForwardCall, AttentionBackwardCall, AttentionRowsCall,
                 AttentionTopKCall, AttentionPairsCall, AttentionBandCall,
                 AttentionReceivedCall, AttentionWindowCall, AttentionGramCall>;

// In the order of the variant.
enum class AttentionPass : uint8_t {
  kForward,
  kBackward,
  kRows,
  kTopK,
  kPairs,
  kBand,
  kReceived,
  kWindow,
  kGram,
};
inline constexpr AttentionPass kAttentionPasses[] = {
    AttentionPass::kForward,  AttentionPass::kBackward, AttentionPass::kRows,
    AttentionPass::kTopK,     AttentionPass::kPairs,    AttentionPass::kBand,
    AttentionPass::kReceived, AttentionPass::kWindow,   AttentionPass::kGram};
static_assert(std::size(kAttentionPasses) ==
              std::variant_size_v<AttentionCall>);

inline AttentionPass PassOf(const AttentionCall& call) {
  return static_cast<AttentionPass>(call.index());
}
// "forward", "top-k", …
const char* Name(AttentionPass pass);

// The first objection to a problem of the call: it has one, or one a source.
Reason WhyNotProblems(const AttentionCall& call,
                      Reason (*why_not)(const AttentionProblem&));

// Why `why_not` of an implementation refuses a pass of a problem, whatever the
// views: it is shown a call without any.
Reason WhyNotPass(Reason (*why_not)(const AttentionCall&), AttentionPass pass,
                  const AttentionProblem& problem);

}  // namespace headwise
