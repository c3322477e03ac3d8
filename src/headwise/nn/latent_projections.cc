// LatentProjections, forward and backward. Door: latent_projections.h.
#include "headwise/nn/latent_projections.h"

#include <utility>

#include "headwise/nn/attention_views.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/pointwise/pointwise.h"
#include "headwise/tensor/slice.h"

namespace headwise {

LatentProjections::LatentProjections(LatentWeights weights, int64_t heads)
    : weights_(std::move(weights)), heads_(heads) {}

std::vector<const Linear*> LatentProjections::linears() const {
  return {&weights_.query_down,  &weights_.query, &weights_.down,
          &weights_.shared_keys, &weights_.keys,  &weights_.values};
}

std::vector<const Norm*> LatentProjections::norms() const {
  return {&weights_.query_norm, &weights_.norm};
}

// [T, H, D] and [T, H·E] of rows.
TensorView LatentProjections::KeysOf(const TensorView& rows) const {
  return Tokens(HeadsOf(rows, weights_.query.out(), heads_, key_dim()));
}
TensorView LatentProjections::ValuesOf(const TensorView& rows) const {
  return Columns(rows, columns() - weights_.values.out(), columns());
}

void LatentProjections::Forward(Context& context, ConstTensorView x,
                                TensorView rows, LatentSaved* saved) const {
  const LatentWeights& w = weights_;
  LatentSaved own;
  LatentSaved& made = saved != nullptr ? *saved : own;
  const int64_t count = x.shape[0], dim = key_dim();
  const TensorView queries = Columns(rows, 0, w.query.out());
  if (w.query_down) {
    const Shape shape = {count, w.query_down.out()};
    made.query_latent = Temp(context, x.type, shape);
    made.query_normed = Temp(context, x.type, shape);
    w.query_down.Forward(context, x, made.query_latent.view());
    w.query_norm.Forward(context, made.query_latent.view(),
                         made.query_normed.view(), &made.query_norm);
    w.query.Forward(context, made.query_normed.view(), queries);
  } else {
    w.query.Forward(context, x, queries);
  }
  const Shape shape = {count, w.down.out()};
  made.latent = Temp(context, x.type, shape);
  made.normed = Temp(context, x.type, shape);
  w.down.Forward(context, x, made.latent.view());
  w.norm.Forward(context, made.latent.view(), made.normed.view(), &made.norm);
  w.values.Forward(context, made.normed.view(), ValuesOf(rows));
  const int64_t own_dim = dim - shared();
  const Temp keys(context, x.type, {count, w.keys.out()});
  const Temp last(context, x.type, {count, shared()});
  w.keys.Forward(context, made.normed.view(), keys.view());
  w.shared_keys.Forward(context, x, last.view());
  const TensorView to = KeysOf(rows);
  Copy(context, Reshaped(keys.view(), {count, heads_, own_dim}),
       Columns(to, 0, own_dim));
  Copy(context,
       Broadcast(ConstTensorView(Reshaped(last.view(), {count, 1, shared()})),
                 {count, heads_, shared()}),
       Columns(to, own_dim, dim));
}

// Adds to dx.
void LatentProjections::QueriesBackward(Context& context, ConstTensorView x,
                                        const LatentSaved& saved,
                                        ConstTensorView dq,
                                        TensorView dx) const {
  const LatentWeights& w = weights_;
  if (!w.query_down) {
    return w.query.Backward(context, x, dq, dx, Store::kAccumulate);
  }
  const Temp memory(context, x.type, {x.shape[0], w.query_down.out()});
  const TensorView d = memory.view();
  w.query.Backward(context, saved.query_normed.view(), dq, d);
  w.query_norm.Backward(context, saved.query_latent.view(), saved.query_norm, d,
                        d);
  w.query_down.Backward(context, x, d, dx, Store::kAccumulate);
}

void LatentProjections::Backward(Context& context, ConstTensorView x,
                                 const LatentSaved& saved, TensorView drows,
                                 TensorView dx) const {
  const LatentWeights& w = weights_;
  const int64_t count = x.shape[0], dim = key_dim(), own_dim = dim - shared();
  const TensorView dkeys = KeysOf(drows);
  const Temp keys(context, x.type, {count, w.keys.out()});
  Copy(context, Columns(dkeys, 0, own_dim),
       Reshaped(keys.view(), {count, heads_, own_dim}));
  const Temp memory(context, x.type, {count, w.down.out()});
  const TensorView d = memory.view();
  w.keys.Backward(context, saved.normed.view(), keys.view(), d);
  w.values.Backward(context, saved.normed.view(), ValuesOf(drows), d,
                    Store::kAccumulate);
  w.norm.Backward(context, saved.latent.view(), saved.norm, d, d);
  w.down.Backward(context, x, d, dx);
  // What all heads share is moved by all of them.
  const Temp last(context, x.type, {count, shared()});
  Fill(context, 0, last.view());
  for (int64_t h = 0; h < heads_; ++h) {
    AddTo(context, At(Columns(dkeys, own_dim, dim), 1, h), last.view());
  }
  w.shared_keys.Backward(context, x, last.view(), dx, Store::kAccumulate);
  QueriesBackward(context, x, saved, Columns(drows, 0, w.query.out()), dx);
}

}  // namespace headwise
