// AttentionLayer, backwards. Door: attention_layer.h.
#include <cstdint>
#include <utility>

#include "headwise/nn/attention_by_head.h"
#include "headwise/nn/attention_layer.h"
#include "headwise/nn/attention_views.h"
#include "headwise/ops/attention/padding.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/pointwise/pointwise.h"

namespace headwise {

// Gradients of what was projected, which lie as the projections did.
struct AttentionLayer::ProjectionGrads {
  Temp first;   // of_x's
  Temp source;  // cross: of_memory's; or of an earlier layer's keys and values
  Temp values;  // of keys that are values
  TensorView dq, dk, dv;
};

AttentionLayer::ProjectionGrads AttentionLayer::MakeGrads(
    Context& context, const AttentionInput& input, const AttentionSaved& saved,
    DType type) const {
  const int64_t heads = config_.heads, groups = config_.kv_heads;
  const int64_t dim = config_.head_dim, keys = groups * dim;
  const int64_t rows = input.x.shape[0];
  ProjectionGrads grads;
  grads.first = Temp(context, type, {rows, projected_columns()});
  // Heads that the call left out write no gradient.
  if (!saved.args.active_heads.is_all()) Fill(context, 0, grads.first.view());
  grads.dq = HeadsOf(grads.first.view(), 0, heads, dim);
  TensorView sources = grads.first.view();
  int64_t at = heads * dim;
  if (cross() || !has_own_keys()) {
    const int64_t width = keys + groups * value_dim();
    grads.source = cross()
                       ? Temp(context, type,
                              {input.memory.shape[0], weights_.of_memory.out()})
                       : Temp(context, type, {rows, width});
    sources = grads.source.view();
    at = 0;
  }
  grads.dk = HeadsOf(sources, at, groups, dim);
  if (config_.keys_are_values) {
    grads.values = Temp(context, type, {sources.shape[0], keys});
    grads.dv = HeadsOf(grads.values.view(), 0, groups, dim);
  } else {
    grads.dv = HeadsOf(sources, at + keys, groups, value_dim());
  }
  return grads;
}

// Undoes what Rotate did: gradients of q and k become those of the projection.
// Those of another layer's keys are that layer's to finish.
void AttentionLayer::ReturnToProjections(Context& context,
                                         const AttentionInput& input,
                                         const AttentionSaved& saved,
                                         const ProjectionGrads& grads) const {
  const TensorView &dq = grads.dq, &dk = grads.dk, &dv = grads.dv;
  if (!has_own_keys()) {
    saved.shared->AddGradients(context, dk, dv);
  } else if (saved.shared != nullptr) {
    saved.shared->TakeGradients(context, dk, dv);
  }
  if (weights_.rope != nullptr) {
    Turn(context, input, Tokens(dq), RopeDirection::kBackward);
    if (has_own_keys()) {
      Turn(context, input, Tokens(dk), RopeDirection::kBackward);
    }
  }
  const int64_t dim = config_.head_dim;
  if (weights_.query_norm) {
    const TensorView q = HeadsOf(saved.unnormed.view(), 0, config_.heads, dim);
    weights_.query_norm.Backward(context, Tokens(q), saved.query_norm,
                                 Tokens(dq));
  }
  if (weights_.key_norm) {
    const TensorView k =
        cross()
            ? HeadsOf(saved.memory_unnormed.view(), 0, config_.kv_heads, dim)
            : HeadsOf(saved.unnormed.view(), config_.heads * dim,
                      config_.kv_heads, dim);
    weights_.key_norm.Backward(context, Tokens(k), saved.key_norm, Tokens(dk));
  }
  if (weights_.value_norm && has_own_keys()) {
    const TensorView v =
        HeadsOf(saved.unnormed_values.view(), 0, config_.kv_heads, value_dim());
    weights_.value_norm.BackwardHeads(context, Tokens(v), saved.value_norm,
                                      Tokens(dv));
  }
  if (config_.keys_are_values) AddTo(context, dv, dk);
}

// The operator's backward. Returns ∂L/∂g [B, M, H] by the layer's own gates,
// where it is asked for; what a hook asked for is by gates on top of those.
Temp AttentionLayer::AttendBackward(Context& context,
                                    const AttentionInput& input,
                                    const AttentionSaved& saved,
                                    AttentionGrads& grads) const {
  const HookList& hooks = input.hooks;
  hooks.BeforeAttentionBackward(site_, saved.problem, saved.args, grads);
  const ConstTensorView& q = saved.args.q;
  const Shape shape = {q.shape[0], q.shape[1], config_.heads};
  const ConstTensorView own = GatesOf(saved);
  const bool gated = static_cast<bool>(own);
  const bool learns =
      weights_.gates.trainable() || (weights_.output_gate && !gates_channels());
  const TensorView asked = grads.dgates;
  Temp dgates, dtable;
  if (gated && (asked || learns)) {
    dgates = Temp(context, DType::kF32, shape);
    Fill(context, 0, dgates.view());
    grads.dgates = dgates.view();
  }
  const bool biased = weights_.bias != nullptr && weights_.bias->trainable();
  if (biased || weights_.spans.trainable()) {
    const ConstTensorView& table = saved.args.relative_table;
    dtable = Temp(context, DType::kF32, {table.shape[0], table.shape[1]});
    Fill(context, 0, dtable.view());
    grads.drelative_table = dtable.view();
  }
  const Parameter& sinks = weights_.sinks.parameter();
  if (sinks.trainable()) grads.dsink_logits = sinks.gradient;
  AttentionBackwardPadded(
      context, saved.problem, saved.args, grads,
      {WidthsOf(context, AttentionPass::kBackward, saved.problem)});
  grads.dgates = asked;
  if (weights_.spans.trainable()) {
    weights_.spans.Backward(context, saved.problem, input.gate_draw,
                            dtable.view());
  }
  if (biased) weights_.bias->Backward(context, dtable.view());
  if (gated && asked) {
    Multiply(context, Reshaped(own, shape), dgates.view(), asked);
  }
  if (saved.gates.outer && dgates) {
    Multiply(context, dgates.view(), saved.gates.outer.view(), dgates.view());
  }
  hooks.AfterAttentionBackward(site_, saved.problem, saved.args, grads);
  return dgates;
}

// dheads [T, H·E] by what the operator put out; dgate: by the output gate of
// channels.
void AttentionLayer::MixBackward(Context& context, const AttentionSaved& saved,
                                 ConstTensorView dy, TensorView dheads,
                                 Temp& dgate) const {
  if (weights_.output) {
    weights_.output.Backward(context, saved.heads.view(), dy, dheads);
  } else {
    Copy(context, dy, dheads);
  }
  if (!gates_channels()) return;
  const OutputGateSaved& output = saved.output_gate;
  dgate = Temp(context, dy.type, {dheads.shape[0], dheads.shape[1]});
  Multiply(context, dheads, output.heads.view(), dgate.view());
  Multiply(context, dheads, output.gate.view(), dheads);
}

void AttentionLayer::Backward(Context& context, const AttentionInput& input,
                              const AttentionSaved& saved, ConstTensorView dy,
                              TensorView dx, TensorView dmemory) const {
  const int64_t rows = input.x.shape[0], heads = config_.heads;
  if (heads == 0) {  // as in Forward
    Fill(context, 0, dx);
    return weights_.output.BackwardWeights(context, NoHeads(context, rows), dy);
  }
  if (saved.by_head != nullptr) {
    return by_head_->Backward(context, input, *saved.by_head, dy, dx, dmemory);
  }
  const Temp dheads(context, dy.type, {rows, heads * value_dim()});
  Temp dgate;  // of channels
  MixBackward(context, saved, dy, dheads.view(), dgate);
  const ProjectionGrads own = MakeGrads(context, input, saved, dy.type);
  const AttentionProblem& problem = saved.problem;
  AttentionGrads grads;
  grads.dout = AsRun(problem, HeadsOf(dheads.view(), 0, heads, value_dim()));
  grads.dq = AsRun(problem, own.dq);
  grads.dk = AsRun(problem, own.dk);
  grads.dv = AsRun(problem, own.dv);
  const Temp dgates = AttendBackward(context, input, saved, grads);
  ReturnToProjections(context, input, saved, own);
  if (weights_.latent) {
    weights_.latent.Backward(context, input.x, saved.latent, own.first.view(),
                             dx);
  } else {
    weights_.of_x.Backward(context, input.x, own.first.view(), dx);
  }
  if (dgate) {
    weights_.output_gate.Backward(
        context, input.x, saved.output_gate.gate.view(), dgate.view(), dx);
  }
  if (dgates) {
    GatesBackward(context, input, saved, Reshaped(dgates.view(), {rows, heads}),
                  dx);
  }
  if (cross()) {
    weights_.of_memory.Backward(context, input.memory, own.source.view(),
                                dmemory, Store::kAccumulate);
  }
}

}  // namespace headwise
