// A profile as JSON, for machines: every metric of every head.
#pragma once

#include "headwise/base/json.h"
#include "headwise/heads/profile/profile.h"

namespace headwise {

// {"format", "model", "hash", "settings", "counts", "heads": [{"layer",
// "head", "kind", "metrics": {NAME: {"mean", "low", "high", "count"}},
// "histogram", "sinks"}]}. Numbers that are not known are null.
Json ProfileJson(const Profile& profile);

// {"mean", "low", "high", "count"}.
Json ToJson(const Estimate& estimate);

}  // namespace headwise
