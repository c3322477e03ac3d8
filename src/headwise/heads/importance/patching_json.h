// A patching result for machines.
#pragma once

#include "headwise/base/json.h"
#include "headwise/patch.h"

namespace headwise {

// {"format": "headwise.patch/1", "prompts", "left_out", "difference", "heads":
// [{"layer", "head", "kind", "direct", "patched", "share"}], …}.
Json ToJson(const PatchResult& result);

}  // namespace headwise
