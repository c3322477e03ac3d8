// How far the gates of models that choose their heads are open.
#pragma once

#include "headwise/context.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/heads/profile/semantic.h"
#include "headwise/heads/profile/site_notes.h"

namespace headwise {

// gates [1, T, H] of a call.
void AddGates(Context& context, const ConstTensorView& gates,
              const SiteNotes& notes, ProfilePlace place);

}  // namespace headwise
