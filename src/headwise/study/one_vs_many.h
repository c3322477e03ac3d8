// What study one-vs-many measures of models, and its part on two models that
// were trained before: one of several heads and its twin of one head.
#pragma once

#include <set>
#include <span>
#include <string>

#include "headwise/context.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/model/model.h"
#include "headwise/runtime/windows.h"
#include "headwise/study/study.h"

namespace headwise {

// How different the heads of one layer are: means over pairs.
struct LayerDifference {
  double jsd = 0;    // of where they look, nats
  double read = 0;   // overlap of what W_V reads: squared cosine
  double write = 0;  // overlap of what W_O writes
};
LayerDifference DifferenceInLayers(Context& context, const Model& model,
                                   std::span<const TokenWindow> windows);

// Names of the roles that any head has; of one layer, or of all (−1).
std::set<std::string> RoleNames(const Profile& profile, int64_t layer = -1);

// Adds what request.model and request.twin show, where both are given.
void TellShippedTwins(Context& context, const StudyRequest& request,
                      StudyResult& result);

}  // namespace headwise
