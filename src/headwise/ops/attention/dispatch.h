// Choice of an implementation for one pass of the attention operator.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "headwise/ops/attention/implementation.h"

namespace headwise {

// The implementations that may run these problems: all of the list, or the one
// that the context asks for and those after it. Throws when the one asked for
// does not exist or refuses a problem.
std::span<const AttentionImplementation> Candidates(
    const Context& context, std::span<const AttentionProblem> problems);

// "" or why this implementation cannot take one of the problems.
std::string WhyNot(const AttentionImplementation& implementation,
                   std::span<const AttentionProblem> problems);

[[noreturn]] void ThrowNoImplementation(
    std::string_view pass, std::span<const AttentionProblem> problems);

// The function of the first implementation that has the pass and no objection.
template <typename Pass>
Pass Dispatch(const Context& context,
              std::span<const AttentionProblem> problems, std::string_view name,
              Pass AttentionImplementation::*pass) {
  for (const AttentionImplementation& candidate :
       Candidates(context, problems)) {
    if (candidate.*pass != nullptr && WhyNot(candidate, problems).empty()) {
      return candidate.*pass;
    }
  }
  ThrowNoImplementation(name, problems);
}

}  // namespace headwise
