// Spearman's rank correlation of attention with the likeness of embeddings, row
// by row where they lie. Lists of numbers stand end to end; ranks within a list
// have ties at their mean and are less the mean of all.
#pragma once

#include "headwise/context.h"
#include "headwise/tensor.h"

namespace headwise {

// Letters in shapes: R lists of n entries in all. Dense, but for the table.
struct CosineRanksArgs {
  ConstTensorView table = {};   // [V, W] f32, bf16 or f16, rows of any stride
  ConstTensorView ids = {};     // i32 [R]
  ConstTensorView others = {};  // i32 [n]
  ConstTensorView starts = {};  // i32 [R + 1]
  TensorView ranks = {};        // f32 [n], of cos(table[ids[r]], table[others])
  TensorView norms = {};        // f64 [R], √Σ ranks²
};
// Ids are in the table. Throws Error(kInvalidArgument) naming the view that
// does not fit.
void CosineRanks(Context& context, const CosineRanksArgs& args);

// Letters as above; H heads of T rows, K rankings to compare with.
struct RankAgreementArgs {
  ConstTensorView shares = {};  // f32 [R, H, N] (AttentionRows)
  ConstTensorView keys = {};    // i32 [n]: those of the row that count
  ConstTensorView starts = {};  // i32 [R + 1]
  ConstTensorView ranks = {};   // f32 [K, n]
  ConstTensorView norms = {};   // f64 [K, R]
  // A row without a finite entropy has no agreement.
  ConstTensorView entropy = {};  // f32 [1, H, T]
  ConstTensorView rows = {};     // i32 [R], in [0, T)
  // Of the shares' ranks with each ranking; 0 where either is constant, NaN:
  // none. Shares below the smallest normal f32 count as that one: ranks among
  // what is nothing are none.
  TensorView agreement = {};  // f64 [R, H, K]
};
// Every sum on the way is exact: all implementations agree. Throws as above.
void RankAgreement(Context& context, const RankAgreementArgs& args);

}  // namespace headwise
