// Copying: does a head make what it reads likelier?
//
//   "copying.run"         in a run: what the head's own output adds to the
//                         logit of the token that it reads most, above the
//                         mean logit (after Olsson et al. 2022), on random
//                         tokens that stand twice. In logits: above 0 it
//                         copies, below 0 it suppresses.
//
// Beside it from the weights alone, Σ Re λ / Σ |λ| over the eigenvalues of
//
//   "copying"             W_V·W_O, in the residual stream
//   "copying.vocabulary"  W_E·W_V·W_O·W_U, from tokens to logits
//
// 1 when a head only copies what stands in the embeddings and −1 when it only
// suppresses that; it misleads where embeddings are tied or the first
// feed-forward rewrites them. Both products have the eigenvalues of a
// head_dim × head_dim core, which is all that is formed.
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

// "copying.run" on these windows: rows whose most attended key is a token of
// the text but the first, from the ninth on. Nothing where a head's output
// reaches the logits by more than the final norm and a matrix (masked-LM heads,
// post-norm models, encoder–decoders) or not at all.
void AddCopyingInRun(Context& context, const Model& model,
                     std::span<const TokenWindow> windows, Profile& profile);

}  // namespace headwise
