// A mixture's attention by rows, backwards. Door: attention_by_head.h.
#include "headwise/nn/attention_by_head.h"
#include "headwise/nn/attention_views.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/slice.h"

namespace headwise {

// Gradients by the operator's inputs and output, in its shapes.
struct AttentionByHead::Gradients {
  Gradients(Context& context, const AttentionArgs& args)
      : out(context, DType::kF32, ShapeOf(args.out)),
        q(context, DType::kF32, ShapeOf(args.q)),
        k(context, DType::kF32, ShapeOf(args.k)),
        v(context, DType::kF32, ShapeOf(args.v)),
        gates(context, DType::kF32, ShapeOf(args.gates)) {}

  static Shape ShapeOf(const ConstTensorView& view) {
    return std::span(view.shape).first(view.rank);
  }
  // As rows [R, n].
  static TensorView Matrix(const Temp& of) {
    return At(At(of.view(), 2, 0), 0, 0);
  }

  Temp out, q, k, v, gates;
};

void AttentionByHead::MixBackward(Context& context, const HeadRowsRun& run,
                                  ConstTensorView dy, Gradients& g) const {
  for (int64_t h = 0; h < config_.heads; ++h) {
    if (run.rows.OfHead(h) == 0) continue;
    Temp copy;
    outputs_[h].Backward(context, RowsOf(run.rows, h, run.out.view()),
                         Chosen(context, run.rows, h, dy, copy),
                         RowsOf(run.rows, h, Gradients::Matrix(g.out)));
  }
}

// Writes dx, or adds to dmemory.
void AttentionByHead::KeysBackward(Context& context,
                                   const AttentionInput& input,
                                   const HeadRowsRun& run, Gradients& g,
                                   TensorView dx, TensorView dmemory) const {
  const ConstTensorView& from = cross() ? input.memory : input.x;
  const Temp dkv(context, DType::kF32, {from.shape[0], kv_.out()});
  const TensorView dk = KeysOf(dkv.view());
  SumHeads(context, g.k.view(), config_.heads, dk);
  SumHeads(context, g.v.view(), config_.heads, ValuesOf(dkv.view()));
  if (!cross()) {
    Turn(context, input, input.batch->PositionsOn(context), Tokens(dk),
         RopeDirection::kBackward);
  }
  if (weights_.key_norm) {
    weights_.key_norm.Backward(context, Tokens(KeysOf(run.kv_unnormed.view())),
                               run.key_norm, Tokens(dk));
  }
  if (cross()) {
    kv_.Backward(context, from, dkv.view(), dmemory, Store::kAccumulate);
  } else {
    kv_.Backward(context, from, dkv.view(), dx);
  }
}

// Adds to dx.
void AttentionByHead::QueriesBackward(Context& context,
                                      const AttentionInput& input,
                                      const HeadRowsRun& run, Gradients& g,
                                      TensorView dx) const {
  const HeadRows& rows = run.rows;
  const TensorView dq = At(g.q.view(), 0, 0);
  Turn(context, input, ViewOf(rows.positions), dq, RopeDirection::kBackward);
  if (weights_.query_norm) {
    weights_.query_norm.Backward(
        context,
        Reshaped(run.q_unnormed.view(), {rows.count(), 1, config_.head_dim}),
        run.query_norm, dq);
  }
  for (int64_t h = 0; h < config_.heads; ++h) {
    if (rows.OfHead(h) == 0) continue;
    const TensorView own = RowsOf(rows, h, Gradients::Matrix(g.q));
    Temp copy;
    queries_[h].BackwardWeights(context,
                                Chosen(context, rows, h, input.x, copy), own);
    AddToChosen(context, rows, h, dx, [&](const TensorView& part) {
      queries_[h].BackwardInput(context, own, part, Store::kAccumulate);
    });
  }
}

void AttentionByHead::Backward(Context& context, const AttentionInput& input,
                               const HeadRowsRun& run, ConstTensorView dy,
                               TensorView dx, TensorView dmemory) const {
  weights_.output.BackwardBias(context, dy);
  const int64_t tokens = input.x.shape[0];
  const Temp dgates(context, DType::kF32, {tokens * config_.heads, 1});
  Fill(context, 0, dgates.view());
  if (cross() || run.rows.count() == 0) Fill(context, 0, dx);
  if (run.rows.count() > 0) {
    Gradients g(context, run.args);
    MixBackward(context, run, dy, g);
    AttentionBackward(context, run.problem, run.args,
                      {.dout = g.out.view(),
                       .dq = g.q.view(),
                       .dk = g.k.view(),
                       .dv = g.v.view(),
                       .dgates = g.gates.view()});
    KeysBackward(context, input, run, g, dx, dmemory);
    QueriesBackward(context, input, run, g, dx);
    ScatterRows(context, Reshaped(g.gates.view(), {run.rows.count(), 1}),
                ViewOf(run.rows.slots), dgates.view());
  }
  if (!weights_.gates.trainable()) return;
  weights_.gates.Backward(context, input.x, *input.batch, input.gate_draw,
                          run.gates,
                          Reshaped(dgates.view(), {tokens, config_.heads}), dx);
}

}  // namespace headwise
