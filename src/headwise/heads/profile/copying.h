// Copying, from the weights alone: a head copies when what it writes of a
// token points the way of that token. Σ Re λ / Σ |λ| over the eigenvalues of
//
//   "copying"             W_V·W_O, in the residual stream
//   "copying.vocabulary"  W_E·W_V·W_O·W_U, from tokens to logits
//
// is 1 when it only copies and −1 when it only suppresses. Both products have
// the eigenvalues of a head_dim × head_dim core, which is all that is formed.
//
//   "copying.logits"      by what a head does (after Olsson et al. 2022): on
//                         random tokens that stand twice, of what its direct
//                         write raises among their logits, the share that falls
//                         on the tokens it attends to. 1: all of it; 0: as by
//                         chance.
#pragma once

#include <span>

#include "headwise/context.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/model/model.h"
#include "headwise/runtime/windows.h"

namespace headwise {

// Every head; "copying.vocabulary" where the model has a vocabulary head of
// plain columns and the head's stack reads the same embeddings. Norms between
// the parts are left out, as is usual.
void AddCopying(Context& context, const Model& model, Profile& profile);

// "copying.logits" on these windows; nothing where "copying.vocabulary" is not
// given.
void AddLogitCopying(Context& context, const Model& model,
                     std::span<const TokenWindow> windows, Profile& profile);

}  // namespace headwise
