// Heads with zero columns behind their own, for implementations that take some
// widths only. The zeros add nothing to scores, outputs and gradients, and the
// scale stays that of the heads' own columns: results are the same to rounding.
// AttentionForward and AttentionBackward pad by themselves where that pays;
// whoever keeps keys and values from call to call keeps them padded.
#pragma once

#include <cstdint>
#include <string_view>

#include "headwise/attention.h"
#include "headwise/context.h"
#include "headwise/ops/attention/head_widths.h"
#include "headwise/ops/attention/implementation.h"

namespace headwise {

// The problem's own, and these rounded up to multiples.
HeadWidths OwnWidths(const AttentionProblem& problem);
HeadWidths RoundedUp(const AttentionProblem& problem, int64_t multiple);

// The same problem of wider heads, with the scale that it has now.
AttentionProblem Widened(const AttentionProblem& problem,
                         const HeadWidths& widths);

// The widths that a pass is run with: wider ones where an implementation takes
// them that comes before all that take the problem as it is, else its own.
HeadWidths BestWidths(const Context& context, AttentionPass pass,
                      const AttentionProblem& problem);
// The same of any list; `wanted` is the one name that counts, or empty.
HeadWidths BestWidths(const ImplementationList<AttentionCall>& list,
                      std::string_view wanted, AttentionPass pass,
                      const AttentionProblem& problem);

struct HeadPadding {
  HeadWidths widths;
  // The call's keys and values where they already lie in slots so wide with
  // zeros behind them: [B, N, G, widths]. Null, or of other widths: copied.
  ConstTensorView k = {};
  ConstTensorView v = {};
};

// AttentionForward and AttentionBackward by heads of such widths. Views are as
// wide as the problem says.
void AttentionForwardPadded(Context& context, const AttentionProblem& problem,
                            const AttentionArgs& args,
                            const HeadPadding& padding);
void AttentionBackwardPadded(Context& context, const AttentionProblem& problem,
                             const AttentionArgs& args,
                             const AttentionGrads& grads,
                             const HeadPadding& padding);

}  // namespace headwise
