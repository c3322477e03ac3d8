// The weights of one head, in the mathematician's orientation (x is a row):
// q = x·W_Q, k = x·W_K, v = x·W_V, and what it writes is v·W_O. Heads of one
// group share W_K and W_V.
//
// Where queries and keys are normed head by head (Qwen3), q = g ∘ (x·W_Q)/rms:
// the gain g is part of W_Q and W_K here, and so is taking the mean off, where
// the norm does (Phi). The division by the root mean square
// is not linear and cannot be: it scales a head's scores token by token, so
// that the size of W_QK says nothing of the size of its scores, while its
// directions stay. So are the gains of norms between a latent and what is made
// of it (DeepSeek): W_V is x → c → v, but for the division of c.
#pragma once

#include <cstdint>

#include "headwise/context.h"
#include "headwise/nn/attention_layer.h"

namespace headwise {

// On the host.
struct HeadWeights {
  Tensor q;  // [d, D]
  Tensor k;  // [d, D], cross: of the memory's width
  Tensor v;  // [d, E], likewise
  Tensor o;  // [E, d]; empty where the layer has no output projection
};

// Throws Error: kInvalidArgument for a head that the layer does not have,
// kCorrupt for weights that are not finite.
HeadWeights WeightsOfHead(Context& context, const AttentionLayer& layer,
                          int64_t head);

// Whether queries and keys, or what they are made of, are divided by their root
// mean square, as above.
bool NormsQueries(const AttentionLayer& layer);

// W_Q·W_Kᵀ [d, d]: how the head matches, at equal rotary positions.
Tensor QkProduct(Context& context, const HeadWeights& weights);
// W_V·W_O [d, d]: what the head writes of what it reads.
Tensor OvProduct(Context& context, const HeadWeights& weights);

// Frobenius norms of these products, without forming them: ‖AB‖² is the trace
// of (AᵀA)(BBᵀ), of head_dim × head_dim matrices.
double QkNorm(Context& context, const HeadWeights& weights);
double OvNorm(Context& context, const HeadWeights& weights);

}  // namespace headwise
