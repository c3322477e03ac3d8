// What a layer's heads read of a token that stands alone: its embedding without
// a position, normed as the layer norms its input.
#pragma once

#include <cstdint>
#include <span>

#include "headwise/context.h"
#include "headwise/head_ref.h"
#include "headwise/model/model.h"

namespace headwise {

// x [rows, d] on the host, normed where the model runs.
void NormRows(Context& context, const Norm& norm, Tensor& x);

// Rows as wide as the tables [rows, e] on the host as [rows, d].
Tensor ProjectedRows(Context& context, const Stack& stack, const Tensor& x);

// Of the tokens: [tokens, d] on the host. table: the stack's embeddings as f32.
Tensor EmbeddingsOf(Context& context, const Stack& stack, const Tensor& table,
                    std::span<const int32_t> tokens);

// Cross-attention reads the encoder's output as it is, pre-norm layers norm
// their input.
Tensor NormedInput(Context& context, const Block& block, AttentionKind kind,
                   const Tensor& embedded);

}  // namespace headwise
