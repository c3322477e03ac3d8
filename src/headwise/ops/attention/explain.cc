// The list of implementations in words. Door:
// include/headwise/implementations.h.
#include "headwise/implementations.h"

#include <fmt/core.h>

#include <string>

#include "headwise/ops/attention/implementation.h"
#include "headwise/ops/attention/padding.h"
#include "headwise/ops/attention/validate.h"

namespace headwise {
namespace {

// "forward, rows, …; not band: has no band pass" where the forward runs.
std::string PassesOf(const AttentionImplementation& one,
                     const AttentionProblem& problem) {
  std::string runs, refused;
  for (const AttentionPass pass : kAttentionPasses) {
    const std::string reason = WhyNot(one, pass, problem);
    if (reason.empty()) {
      runs += (runs.empty() ? "" : ", ") + std::string(Name(pass));
    } else {
      refused += fmt::format("; not {}: {}", Name(pass), reason);
    }
  }
  return runs + refused;
}

// How AttentionForward pads heads that a faster implementation takes only with
// zero columns behind their own.
std::string PaddingOf(const AttentionProblem& problem) {
  const HeadWidths widths = BestWidths(AttentionImplementations(), "",
                                       AttentionPass::kForward, problem);
  if (widths == OwnWidths(problem)) return "";
  const AttentionProblem wide = Widened(problem, widths);
  for (const auto& one : AttentionImplementations().entries) {
    if (!WhyNot(one, AttentionPass::kForward, wide).empty()) continue;
    return fmt::format(
        "heads are run with zero columns, {} wide, by {}",
        widths.head_dim == widths.value_dim
            ? std::to_string(widths.head_dim)
            : fmt::format("{} and {}", widths.head_dim, widths.value_dim),
        one.name);
  }
  return "";
}

}  // namespace

Implementations ExplainAttention(const AttentionProblem& problem) {
  ValidateProblem(problem);
  Implementations all = {ToString(problem), PaddingOf(problem), {}};
  for (const auto& one : AttentionImplementations().entries) {
    const std::string reason = WhyNot(one, AttentionPass::kForward, problem);
    all.entries.push_back(
        {one.name, reason, reason.empty() ? PassesOf(one, problem) : ""});
  }
  return all;
}

}  // namespace headwise
