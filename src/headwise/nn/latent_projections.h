// Queries, keys and values through latents that are narrower than they are
// (multi-head latent attention, DeepSeek-V2, 2024):
//
//   c = norm(x·W_DKV)     k_h = [c·W_UK_h, x·W_KR]     v_h = c·W_UV_h
//   c' = norm(x·W_DQ)     q_h = c'·W_UQ_h, or x·W_UQ_h
//
// The last numbers of every key, x·W_KR, are one for all heads: positions turn
// them alone.
#pragma once

#include <cstdint>
#include <vector>

#include "headwise/context.h"
#include "headwise/nn/linear.h"
#include "headwise/nn/norm.h"
#include "headwise/tensor/temp.h"

namespace headwise {

struct LatentWeights {
  Linear query_down = {};  // x → c', and its norm; may be absent
  Norm query_norm = {};
  Linear query = {};        // c' or x → H·D
  Linear down = {};         // x → c
  Norm norm = {};           // of c
  Linear shared_keys = {};  // x → R, the last numbers of each key
  Linear keys = {};         // c → H·(D − R)
  Linear values = {};       // c → H·E
};

// A forward's results that its backward reads.
struct LatentSaved {
  Temp query_latent, query_normed;  // c' before and after its norm
  NormSaved query_norm;
  Temp latent, normed;  // c likewise
  NormSaved norm;
};

class LatentProjections {
 public:
  LatentProjections() = default;
  LatentProjections(LatentWeights weights, int64_t heads);

  explicit operator bool() const {
    return static_cast<bool>(weights_.shared_keys);
  }
  const LatentWeights& weights() const { return weights_; }
  // Numbers of a key, and of those the ones that all heads share.
  int64_t key_dim() const {
    return (heads_ == 0 ? 0 : weights_.keys.out() / heads_) + shared();
  }
  int64_t shared() const { return weights_.shared_keys.out(); }
  // H·D queries, H·D keys and H·E values.
  int64_t columns() const {
    return weights_.query.out() + heads_ * key_dim() + weights_.values.out();
  }
  std::vector<const Linear*> linears() const;
  std::vector<const Norm*> norms() const;

  // x [T, d]; rows [T, columns()]: queries, keys, values. saved may be null.
  void Forward(Context& context, ConstTensorView x, TensorView rows,
               LatentSaved* saved) const;
  // drows as rows lie; dx [T, d] is overwritten. Gradients of trainable weights
  // are added to.
  void Backward(Context& context, ConstTensorView x, const LatentSaved& saved,
                TensorView drows, TensorView dx) const;

 private:
  TensorView KeysOf(const TensorView& rows) const;
  TensorView ValuesOf(const TensorView& rows) const;
  void QueriesBackward(Context& context, ConstTensorView x,
                       const LatentSaved& saved, ConstTensorView dq,
                       TensorView dx) const;

  LatentWeights weights_;
  int64_t heads_ = 0;
};

}  // namespace headwise
