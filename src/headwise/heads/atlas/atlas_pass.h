// The passes of an atlas over a text: one for sums and for what to keep, and
// one over the kept sequences alone for their maps. Ranks share both, and both
// go on where they were interrupted (runtime/text_pass.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "headwise/atlas.h"
#include "headwise/context.h"
#include "headwise/heads/atlas/atlas_sums.h"
#include "headwise/model/model.h"
#include "headwise/runtime/text_pass.h"
#include "headwise/runtime/windows.h"

namespace headwise {

// The text's sequences one after another; nothing: its end.
using NextWindow = std::function<std::optional<TokenWindow>()>;

// On all ranks. longest: tokens of a sequence. expected: tokens of the whole
// text, for progress; 0: not known.
AtlasSums SumAtlas(Context& context, const Model& model, const NextWindow& next,
                   int64_t longest, const std::function<double()>& expected,
                   const AtlasJob& job, const PassOptions& options);

// A head's attention on one sequence: of each query its largest keys that reach
// AtlasJob::least, by query and then by key.
struct SparseMap {
  std::vector<int32_t> places = {};  // query · tokens + key
  std::vector<float> values = {};
};

// One a chosen sequence, in their order: [head][sequence]. The first rank has
// them.
std::vector<std::vector<SparseMap>> MapSequences(
    Context& context, const Model& model, const AtlasSums& sums,
    const std::vector<std::vector<KeptSequence>>& chosen, const AtlasJob& job,
    const PassOptions& options);

}  // namespace headwise
