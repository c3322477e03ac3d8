// Heads that look where another looks.
#pragma once

#include <optional>
#include <set>
#include <span>

#include "headwise/context.h"
#include "headwise/model/head_ref.h"
#include "headwise/model/model.h"
#include "headwise/runtime/text_pass.h"
#include "headwise/runtime/windows.h"

namespace headwise {

// By the first windows: a few hundred rows tell. Absent where the texts are too
// short to compare patterns on. Of ranks, the first gets them.
std::optional<std::set<HeadRef>> FindTwins(Context& context, const Model& model,
                                           std::span<const TokenWindow> windows,
                                           const PassOptions& options);

}  // namespace headwise
