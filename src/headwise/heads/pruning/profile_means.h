// Mean outputs of heads that a profile holds.
#pragma once

#include <filesystem>
#include <vector>

#include "headwise/heads/importance/variants.h"
#include "headwise/heads/profile/profile.h"
#include "headwise/model/model.h"

namespace headwise {

// Means (MeansOver) as Profile::mean_outputs lists them, and back. Throws
// Error(kInvalidArgument) for a profile of another model, or one without means.
std::vector<std::vector<double>> ListMeans(const HeadOutputs& means,
                                           const Model& model);
HeadOutputs MeansOf(const Profile& profile, const Model& model,
                    const std::string& model_hash);

}  // namespace headwise
