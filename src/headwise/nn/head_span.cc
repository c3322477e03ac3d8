// Learned spans as a relative bias. Door: head_span.h.
#include "headwise/nn/head_span.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "headwise/ops/copy/copy.h"
#include "headwise/ops/gate/gate.h"

namespace headwise {

HeadSpans::HeadSpans(SpanConfig config, Parameter spans)
    : config_(config), spans_(std::move(spans)) {}

void HeadSpans::Forward(Context& context, const GateDraw& draw,
                        AttentionProblem& problem, AttentionArgs& args,
                        SpanSaved& saved) const {
  if (config_.ramp == 0) return;
  const ConstTensorView spans = spans_.view(context);
  std::vector<double> z;  // of each head, in positions
  for (const float span : ToVector<float>(context, spans)) {
    z.push_back(static_cast<double>(config_.limit) *
                std::clamp(span, 0.0f, 1.0f));
  }
  const double widest = *std::max_element(z.begin(), z.end());
  // m is 0 from ramp + z on.
  const auto band = static_cast<int64_t>(
                        std::ceil(static_cast<double>(config_.ramp) + widest)) -
                    1;
  const int64_t reach =
      std::min(band + 1, std::max(problem.query_len, problem.key_len));
  problem.mask.before = std::min(problem.mask.before, band);
  problem.mask.after = std::min(problem.mask.after, band);
  problem.bias = AttentionBias::kRelative;
  problem.relative_reach = reach;
  saved.table = Temp(context, DType::kF32, {spans.shape[0], 2 * reach + 1});
  SpanForward(context, {config_.ramp, config_.limit, reach}, spans,
              saved.table.view());
  args.relative_table = saved.table.view();
  if (draw.training == nullptr || draw.training->loss == nullptr) return;
  for (const double one : z) {
    *draw.training->loss +=
        draw.training->span_penalty * one / static_cast<double>(config_.limit);
  }
}

void HeadSpans::Backward(Context& context, const AttentionProblem& problem,
                         const GateDraw& draw, ConstTensorView dtable) const {
  const float penalty =
      draw.training != nullptr ? draw.training->span_penalty : 0.0f;
  SpanBackward(
      context, {config_.ramp, config_.limit, problem.relative_reach},
      spans_.view(context),
      {.dtable = dtable, .penalty = penalty, .dspans = spans().gradient});
}

}  // namespace headwise
