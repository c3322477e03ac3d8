// Heads within projected rows: views that forward and backward share. Private
// to attention_layer.cc, attention_backward.cc and attention_by_head.cc.
#pragma once

#include <cstdint>

#include "headwise/attention.h"
#include "headwise/context.h"
#include "headwise/tensor.h"
#include "headwise/tensor/slice.h"

namespace headwise {

// Columns [begin, begin + heads·dim) of rows [T, width] as [1, T, heads, dim].
inline TensorView HeadsOf(const TensorView& rows, int64_t begin, int64_t heads,
                          int64_t dim) {
  return Reshaped(Columns(rows, begin, begin + heads * dim),
                  {1, rows.shape[0], heads, dim});
}

// [1, B·M, heads, dim] as [B, M, heads, dim].
inline TensorView PerSequence(const TensorView& view, int64_t sequences) {
  if (sequences == 1) return view;
  return Reshaped(view, {sequences, view.shape[1] / sequences, view.shape[2],
                         view.shape[3]});
}

// [1, T, heads, dim] as the operator was given it.
inline TensorView AsRun(const AttentionProblem& problem,
                        const TensorView& view) {
  return problem.packed ? view : PerSequence(view, problem.batch);
}

// [1, tokens, heads, dim] as [tokens, heads, dim].
inline TensorView Tokens(const TensorView& view) { return At(view, 0, 0); }

// Copies new keys and values [1, B·M, G, ·] behind the rows the cache holds.
// Throws Error(kInvalidArgument) where there is no room.
struct CacheView;
void AppendToCache(Context& context, const TensorView& k, const TensorView& v,
                   const CacheView& cache);

// What a layer that has lost all its heads gives to its output projection:
// [rows, 0].
inline ConstTensorView NoHeads(const Context& context, int64_t rows) {
  static constexpr float kNothing = 0;
  return {&kNothing, DType::kF32, {rows, 0}, context.device()};
}

}  // namespace headwise
