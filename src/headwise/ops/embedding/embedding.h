// Rows of a table by id, and the gradient added back to those rows.
#pragma once

#include <cstdint>
#include <span>

#include "headwise/context.h"
#include "headwise/tensor.h"

namespace headwise {

enum class EmbeddingWrite : uint8_t { kOverwrite, kAdd };

// out [ids, width] f32 = (or +=) table[ids]; table [rows, width] f32, bf16 or
// f16, at any address. Throws Error(kInvalidArgument) naming the first id
// outside the table.
void EmbeddingForward(Context& context, ConstTensorView table,
                      std::span<const int32_t> ids, TensorView out,
                      EmbeddingWrite write = EmbeddingWrite::kOverwrite);

// dtable[ids[t]] += dout[t], in the order of t. Both f32.
void EmbeddingBackward(Context& context, ConstTensorView dout,
                       std::span<const int32_t> ids, TensorView dtable);

}  // namespace headwise
