// Passes by name, and calls without views. Door: call.h.
#include "headwise/ops/attention/call.h"

#include <type_traits>

namespace headwise {
namespace {

// A call of the pass whose views are all null, given to `use`.
template <typename Use>
Reason WithBareCall(AttentionPass pass, const AttentionProblem& problem,
                    const Use& use) {
  const AttentionArgs args;
  const AttentionGrads grads;
  const HeadSource source{problem, args};
  switch (pass) {
    case AttentionPass::kForward:
      return use(AttentionForwardCall{problem, args});
    case AttentionPass::kBackward:
      return use(AttentionBackwardCall{problem, args, grads});
    case AttentionPass::kRows:
      return use(AttentionRowsCall{problem, args});
    case AttentionPass::kTopK:
      return use(AttentionTopKCall{problem, args});
    case AttentionPass::kPairs:
      return use(AttentionPairsCall{problem, args});
    case AttentionPass::kBand:
      return use(AttentionBandCall{problem, args});
    case AttentionPass::kReceived:
      return use(AttentionReceivedCall{problem, args});
    case AttentionPass::kWindow:
      return use(AttentionWindowCall{problem, args});
    case AttentionPass::kGram:
      return use(AttentionGramCall{{&source, 1}});
  }
  return "";
}

}  // namespace

const char* Name(AttentionPass pass) {
  switch (pass) {
    case AttentionPass::kForward:
      return "forward";
    case AttentionPass::kBackward:
      return "backward";
    case AttentionPass::kRows:
      return "rows";
    case AttentionPass::kTopK:
      return "top-k";
    case AttentionPass::kPairs:
      return "pairs";
    case AttentionPass::kBand:
      return "band";
    case AttentionPass::kReceived:
      return "received";
    case AttentionPass::kWindow:
      return "window";
    case AttentionPass::kGram:
      return "gram";
  }
  return "?";
}

Reason WhyNotProblems(const AttentionCall& call,
                      Reason (*why_not)(const AttentionProblem&)) {
  return std::visit(
      [&]<typename T>(const T& of) -> Reason {
        if constexpr (std::is_same_v<T, AttentionGramCall>) {
          for (const HeadSource& source : of.sources) {
            Reason reason = why_not(source.problem);
            if (!reason.empty()) return reason;
          }
          return "";
        } else {
          return why_not(of.problem);
        }
      },
      call);
}

Reason WhyNotPass(Reason (*why_not)(const AttentionCall&), AttentionPass pass,
                  const AttentionProblem& problem) {
  return WithBareCall(pass, problem, why_not);
}

}  // namespace headwise
