// One layer of several trained models on one sentence, beside each other:
// comparison.h with weights that were learned.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "headwise/study/comparison.h"

namespace headwise {

// `models`: folders of models that share a tokenizer and a number of layers,
// the last one with several heads. Without `layer`, the one in which the last
// model's heads differ most on this sentence. Throws Error(kInvalidArgument)
// for a sentence that is too short or too long, a layer that is not there and
// models that cannot stand beside each other.
Comparison CompareTrained(Context& context, std::string_view sentence,
                          const std::vector<std::filesystem::path>& models,
                          std::optional<int64_t> layer);

}  // namespace headwise
