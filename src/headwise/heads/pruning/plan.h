// Which heads are to leave a model, as a file that can be read, edited,
// compared and replayed ("headwise.plan/1"), and which sets of heads can leave
// at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "headwise/base/json.h"
#include "headwise/head_ref.h"
#include "headwise/model/head_ref.h"
#include "headwise/prune.h"

namespace headwise {

// Of gates, in a plan or asked for: days of work on a large model.
inline constexpr int64_t kMostGateSteps = 1'000'000;

enum class EmptyLayers : uint8_t { kRefused, kAllowed };

// Throws Error(kInvalidArgument) for what cannot leave: heads that the model
// does not have or named twice, all heads of a layer unless that is allowed,
// groups of queries that would differ in size; Error(kUnsupported) where a
// mixture's router chooses among the heads.
void RequireRemovable(const Model& model, std::span<const HeadRef> removed,
                      EmptyLayers empty = EmptyLayers::kRefused);

// {"format": "headwise.plan/1", "model": …, "remove": ["5.1", …], …}
Json ToJson(const PruningPlan& plan, const Model& model);

// Throws Error: kCorrupt naming file and key; kInvalidArgument for a plan of
// another model, or one that names a head twice. What else RequireRemovable
// refuses is not looked for.
PruningPlan ReadPlan(const std::filesystem::path& path, const Model& model,
                     const std::string& model_hash);

}  // namespace headwise
