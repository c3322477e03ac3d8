// One head of a MultiHeadAttention: its metric, distribution, content and
// output, from its own slices of the weights alone.
// Door: include/headwise/multi_head_attention.h.
#include <fmt/core.h>

#include <utility>
#include <vector>

#include "headwise/backend/context_use.h"
#include "headwise/multi_head_attention.h"
#include "headwise/nn/head_weights.h"
#include "headwise/nn/multi_head_call.h"
#include "headwise/observation.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

void CheckHead(const MultiHeadAttentionConfig& config, int64_t head) {
  if (head >= 0 && head < config.heads) return;
  RefuseMultiHead(fmt::format("a head from 0 to {}", config.heads - 1),
                  fmt::format("{}", head));
}

// Every row of the distribution, after the pass.
class RowsHooks : public InputHooks {
 public:
  // weights: [B, M, N].
  RowsHooks(Context& context, const MultiHeadAttentionInput& given,
            TensorView weights)
      : InputHooks(given), context_(context), weights_(weights) {}

  void AfterAttention(const AttentionSite& /*site*/,
                      const AttentionProblem& problem,
                      const AttentionArgs& args) override {
    std::vector<RowRef> rows;
    for (int64_t b = 0; b < problem.batch; ++b) {
      for (int64_t m = 0; m < problem.query_len; ++m) rows.push_back({b, m});
    }
    AttentionRows(context_, problem, args, rows,
                  Reshaped(weights_, {problem.batch * problem.query_len, 1,
                                      problem.key_len}));
  }

 private:
  Context& context_;
  TensorView weights_;
};

}  // namespace

Tensor MultiHeadAttention::Metric(Context& context, int64_t head) const {
  const ContextUse use(context);
  const AttentionLayer layer = Call::LayerOf(*this, {.cross = true});
  return QkProduct(context, WeightsOfHead(context, layer, head));
}

HeadContent MultiHeadAttention::Content(Context& context, int64_t head) const {
  const ContextUse use(context);
  const AttentionLayer layer = Call::LayerOf(*this, {.cross = true});
  HeadWeights weights = WeightsOfHead(context, layer, head);
  HeadContent content;
  content.output = config_.output_projection
                       ? OvProduct(context, weights)
                       : ToHost(context, weights.v.view());
  content.value = std::move(weights.v);
  return content;
}

Tensor MultiHeadAttention::Weights(Context& context, int64_t head,
                                   const MultiHeadAttentionInput& input) const {
  CheckHead(config_, head);
  const ContextUse use(context);
  Call call(context, *this, input, head);
  Tensor weights(DType::kF32, {call.batch(), call.queries(), call.keys()});
  if (call.empty()) return weights;
  const Temp out(context, DType::kF32,
                 {call.batch(), call.queries(), config_.head_dim});
  RowsHooks hooks(context, call.given(), weights.view());
  call.Forward(context, hooks, Call::Mix::kNo, out.view());
  return weights;
}

Tensor MultiHeadAttention::Output(Context& context, int64_t head,
                                  const MultiHeadAttentionInput& input) const {
  CheckHead(config_, head);
  const ContextUse use(context);
  Call call(context, *this, input, head);
  Tensor out(DType::kF32,
             {call.batch(), call.queries(),
              config_.output_projection ? config_.d_model : config_.head_dim});
  if (call.empty()) return out;
  InputHooks hooks(call.given());
  call.Forward(context, hooks, Call::Mix::kYes, out.view());
  return out;
}

}  // namespace headwise
