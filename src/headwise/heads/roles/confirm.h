// The causal check of a role: what switching the head off does to the
// behaviour that the role would explain.
//
//   induction, duplicate   the loss on repeated tokens
//   previous-token         the induction score of the heads that read it
//
// Other roles have no behaviour of their own to look at and stay unchecked.
#pragma once

#include <vector>

#include "headwise/context.h"
#include "headwise/heads/roles/roles.h"
#include "headwise/model/model.h"
#include "headwise/roles.h"
#include "headwise/tokenizer/tokenizer.h"

namespace headwise {

// Sets Role::check where there is something to check. Models that predict no
// next token are left as they are. `tokenizer` may be null. Throws
// Error(kInvalidArgument) for a head that the model does not have,
// Error(kCancelled) when stopped.
void ConfirmRoles(Context& context, const Model& model,
                  const Tokenizer* tokenizer, std::vector<HeadRoles>& heads,
                  const ConfirmJob& job = {});

}  // namespace headwise
