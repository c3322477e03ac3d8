// AttentionLayer, backwards. Door: attention_layer.h.
#include <utility>

#include "headwise/nn/attention_by_head.h"
#include "headwise/nn/attention_layer.h"
#include "headwise/nn/attention_views.h"
#include "headwise/ops/attention/padding.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/pointwise/pointwise.h"

namespace headwise {

// Undoes what Rotate did: gradients of q and k become those of the projection.
void AttentionLayer::ReturnToProjections(Context& context,
                                         const AttentionInput& input,
                                         const AttentionSaved& saved,
                                         TensorView dq, TensorView dk) const {
  if (weights_.rope != nullptr) {
    for (const TensorView& gradient : {dq, dk}) {
      Turn(context, input, Tokens(gradient), RopeDirection::kBackward);
    }
  }
  if (!weights_.query_norm) return;
  const int64_t dim = config_.head_dim;
  const TensorView q = HeadsOf(saved.unnormed.view(), 0, config_.heads, dim);
  const TensorView k =
      cross() ? HeadsOf(saved.memory_unnormed.view(), 0, config_.kv_heads, dim)
              : HeadsOf(saved.unnormed.view(), config_.heads * dim,
                        config_.kv_heads, dim);
  weights_.query_norm.BackwardHeads(context, Tokens(q), saved.query_norm,
                                    Tokens(dq));
  weights_.key_norm.BackwardHeads(context, Tokens(k), saved.key_norm,
                                  Tokens(dk));
}

// The operator's backward. Returns ∂L/∂g [B, M, H] by the layer's own gates,
// where there are any; what a hook asked for is by gates on top of those.
Temp AttentionLayer::AttendBackward(Context& context,
                                    const AttentionInput& input,
                                    const AttentionSaved& saved,
                                    AttentionGrads& grads) const {
  RunHooks* hooks = input.hooks;
  if (hooks != nullptr) {
    hooks->BeforeAttentionBackward(site_, saved.problem, saved.args, grads);
  }
  const ConstTensorView& q = saved.args.q;
  const Shape shape = {q.shape[0], q.shape[1], config_.heads};
  const bool gated = static_cast<bool>(saved.gates.gates);
  const TensorView asked = grads.dgates;
  Temp dgates, dtable;
  if (gated && (asked || weights_.gates.trainable())) {
    dgates = Temp(context, DType::kF32, shape);
    Fill(context, 0, dgates.view());
    grads.dgates = dgates.view();
  }
  if (weights_.spans.trainable()) {
    const ConstTensorView& table = saved.args.relative_table;
    dtable = Temp(context, DType::kF32, {table.shape[0], table.shape[1]});
    Fill(context, 0, dtable.view());
    grads.drelative_table = dtable.view();
  }
  AttentionBackwardPadded(
      context, saved.problem, saved.args, grads,
      {WidthsOf(context, AttentionPass::kBackward, saved.problem)});
  grads.dgates = asked;
  if (weights_.spans.trainable()) {
    weights_.spans.Backward(context, saved.problem, input.gate_draw,
                            dtable.view());
  }
  if (gated && asked) {
    Multiply(context, Reshaped(saved.gates.gates.view(), shape), dgates.view(),
             asked);
  }
  if (saved.gates.outer && dgates) {
    Multiply(context, dgates.view(), saved.gates.outer.view(), dgates.view());
  }
  if (hooks != nullptr) {
    hooks->AfterAttentionBackward(site_, saved.problem, saved.args, grads);
  }
  return dgates;
}

void AttentionLayer::Backward(Context& context, const AttentionInput& input,
                              const AttentionSaved& saved, ConstTensorView dy,
                              TensorView dx, TensorView dmemory) const {
  const int64_t rows = input.x.shape[0];
  const int64_t heads = config_.heads, groups = config_.kv_heads;
  const int64_t dim = config_.head_dim;
  if (heads == 0) {  // as in Forward
    Fill(context, 0, dx);
    return weights_.output.BackwardWeights(context, NoHeads(context, rows), dy);
  }
  if (saved.by_head != nullptr) {
    return by_head_->Backward(context, input, *saved.by_head, dy, dx, dmemory);
  }
  const Temp dheads(context, dy.type, {rows, heads * value_dim()});
  if (weights_.output) {
    weights_.output.Backward(context, saved.heads.view(), dy, dheads.view());
  } else {
    Copy(context, dy, dheads.view());
  }

  // The gradient of each projection lies as the projection did.
  const Linear& first = weights_.of_x;
  const Temp dfirst(context, dy.type, {rows, first.out()});
  Temp dsource;
  if (cross()) {
    dsource = Temp(context, dy.type,
                   {input.memory.shape[0], weights_.of_memory.out()});
  }
  // Heads that the call left out write no gradient.
  if (!saved.args.active_heads.is_all()) Fill(context, 0, dfirst.view());
  const TensorView sources = cross() ? dsource.view() : dfirst.view();
  const int64_t first_key = cross() ? 0 : heads * dim;
  const TensorView dq = HeadsOf(dfirst.view(), 0, heads, dim);
  const TensorView dk = HeadsOf(sources, first_key, groups, dim);
  const TensorView dv =
      HeadsOf(sources, first_key + groups * dim, groups, value_dim());
  const AttentionProblem& problem = saved.problem;
  AttentionGrads grads;
  grads.dout = AsRun(problem, HeadsOf(dheads.view(), 0, heads, value_dim()));
  grads.dq = AsRun(problem, dq);
  grads.dk = AsRun(problem, dk);
  grads.dv = AsRun(problem, dv);
  const Temp dgates = AttendBackward(context, input, saved, grads);
  ReturnToProjections(context, input, saved, dq, dk);
  first.Backward(context, input.x, dfirst.view(), dx);
  if (weights_.gates.trainable()) {
    weights_.gates.Backward(context, input.x, *input.batch, input.gate_draw,
                            saved.gates, Reshaped(dgates.view(), {rows, heads}),
                            dx);
  }
  if (cross()) {
    weights_.of_memory.Backward(context, input.memory, dsource.view(), dmemory,
                                Store::kAccumulate);
  }
}

}  // namespace headwise
