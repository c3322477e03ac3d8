// Study prune-curve: what its parts share.
#pragma once

#include "headwise/study/study.h"

namespace headwise {

// Of what all heads together are worth: a rise of the loss that is not counted.
inline constexpr double kUncounted = 0.05;

// The same one-shot curve of the model that ships, or of the one given.
void TellShippedCurve(Context& context, const StudyRequest& request,
                      StudyResult& result);

}  // namespace headwise
