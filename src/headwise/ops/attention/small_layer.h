// Self-attention with its projections for a few rows on the host: calls so
// small that checks and lists would take longer than the products. The products
// and the attention are the operators' own, in the same order, so the bits are
// those of a call of each.
#pragma once

#include <cstdint>

#include "headwise/attention.h"
#include "headwise/context.h"
#include "headwise/tensor.h"

namespace headwise {

// x [B, M, d], weights [in, out], biases [out] or null, out [B, M, d]. Of the
// attention's switches it has the mask alone: a layer with sink logits, say, is
// none.
struct SmallLayer {
  int64_t heads = 1;
  int64_t kv_heads = 1;
  int64_t head_dim = 0;
  AttentionMask mask = {};
  ConstTensorView x = {};
  ConstTensorView w_q = {}, w_k = {}, w_v = {}, w_o = {};
  ConstTensorView b_q = {}, b_k = {}, b_v = {}, b_o = {};
  TensorView out = {};
};

// Whether it was run. Not: more than a few rows, views that are not dense f32
// of these shapes on the host or that out overlaps, another device, and where
// the context asks for implementations by name. Throws Error(kInvalidArgument)
// for a mask that is none.
bool RunSmallLayer(Context& context, const SmallLayer& layer);

}  // namespace headwise
