// Adaptive attention span (Sukhbaatar et al. 2019): each head learns how far
// back it looks. Its attention is multiplied by a soft mask of the distance,
//
//   m(d) = clamp((ramp + z − d) / ramp, 0, 1),   z = limit · span
//
// and normalised again, which is the operator's relative bias log m: nothing
// of the size of the attention map is made. Keys that no head of the layer
// reaches are not computed.
#pragma once

#include <cstdint>

#include "headwise/attention.h"
#include "headwise/nn/head_gates.h"
#include "headwise/nn/parameter.h"
#include "headwise/tensor/temp.h"

namespace headwise {

struct SpanConfig {
  int64_t ramp = 0;   // positions over which the mask falls; 0: no spans
  int64_t limit = 0;  // positions of a span of 1
};

// The tables of one call.
struct SpanSaved {
  Temp table;  // log m, [H, 2·reach + 1]; empty: no spans
};

class HeadSpans {
 public:
  HeadSpans() = default;
  // spans [H], each in [0, 1]: what is outside counts as the nearer end.
  HeadSpans(SpanConfig config, Parameter spans);

  const SpanConfig& config() const { return config_; }
  const Parameter& spans() const { return spans_.parameter(); }
  bool trainable() const { return spans().trainable(); }

  // Sets the bias of a call, and narrows its mask to the longest span.
  void Forward(Context& context, const GateDraw& draw,
               AttentionProblem& problem, AttentionArgs& args,
               SpanSaved& saved) const;
  // dtable [H, 2·reach + 1] as the operator left it; the gradient of the spans
  // and of their penalty is added to.
  void Backward(Context& context, const AttentionProblem& problem,
                const GateDraw& draw, ConstTensorView dtable) const;

 private:
  SpanConfig config_;
  Values spans_;
};

// The span of a new head: it sees everything.
inline constexpr float kNewSpan = 1;

}  // namespace headwise
